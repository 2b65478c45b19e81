"""Pages that nobody writes by hand: theorems, examples, gallery, errata, reference."""

import html
import importlib.util
import inspect
import json
import re
import shutil
from pathlib import Path

import catalogue
import docstring_parser
import example_pages
import outputs
from docutils import nodes
from latex2mathml.converter import convert

import gradbias as gb

ROOMS = {
    "gradbias": "Top-level names: what `import gradbias as gb` gives.",
    "gradbias.problems": "What is fitted.",
    "gradbias.nets": "How parameters make a predictor.",
    "gradbias.geometry": "Norms, their duals and steepest directions.",
    "gradbias.init": "Where training starts.",
    "gradbias.noise": "Where randomness comes from.",
    "gradbias.dynamics": "How parameters move.",
    "gradbias.observe": "What is measured on the way.",
    "gradbias.symmetry": "Charges, their laws, noise balance.",
    "gradbias.theory": "Predictions, computed without a step.",
    "gradbias.theory.manifold": "The manifold of minimisers.",
    "gradbias.theory.diagonal": "Diagonal nets.",
    "gradbias.theory.margin": "Largest margins, certificates and rates.",
    "gradbias.theory.optimisers": "Optimisers: balls of weight decay, flows, floors.",
    "gradbias.theory.symmetry": "Noether flow and noise equilibria.",
    "gradbias.theorems": "Theorems as objects.",
    "gradbias.plot": "Pictures of your own runs.",
    "gradbias.figures": "The papers' figures.",
    "gradbias.report": "All of it on one page.",
    "gradbias.testing": "For authors of own nets, noise and theorems.",
    "gradbias.torch": "For PyTorch models.",
}


def write_all(made: Path, pictures: Path) -> None:
    """Write every page into `made`."""
    made.mkdir(exist_ok=True)
    _keep(made / "papers.bib", gb.cite("*") + "\n")
    _keep(made / "errata.md", errata())
    theorems = gb.theorems.find()
    _keep(made / "theorems.md", catalogue.page(theorems, made.parent / "claims.json"))
    for name, text in example_pages.pages(made.parents[1] / "examples").items():
        if name.removeprefix("example-") in example_pages.QUICK:
            text = outputs.with_outputs(text, list(outputs.printed_by(text, name)))
        _keep(made / f"{name}.md", text)
    _keep(made / "gallery.md", gallery(made, pictures))
    _keep(made / "reference.md", reference(made))


def _keep(path: Path, text: str) -> None:
    """Leave a file alone that would not change: Sphinx builds again what is newer."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def errata() -> str:
    """The corrections, with their evidence computed now."""
    table = gb.report.errata_table(gb.report.corrections())
    return (
        "# Errata\n\nThe same list for programs is `errata.json`; `gradbias report` writes it.\n\n"
        f"```{{raw}} html\n{table}\n```\n"
    )


def gallery(made: Path, pictures: Path) -> str:
    """Thumbnails first, then each figure with its caption and how to make it."""
    folder = made / "figures"
    folder.mkdir(exist_ok=True)
    drawn, missing, tiles, parts = [], [], [], []
    for figure in gb.figures.find():
        picture = pictures / f"{figure.id}.svg"
        (drawn if picture.exists() else missing).append(figure)
        if picture.exists():
            shutil.copy(picture, folder / picture.name)
    for figure in drawn:
        anchor = _anchor(figure.id)
        image = f"../_images/{figure.id}.svg"
        title = html.escape(figure.title)
        tiles.append(f'<a href="#{anchor}"><img alt="" src="{image}"><span>{title}</span></a>')
        parts.append(_figure(figure, anchor, pictures))
    left = "".join(f"- `gradbias figures {f.id}`: {f.title}\n" for f in missing)
    more = f"## Not drawn here\n\n{left}" if missing else ""
    return (
        "# Gallery\n\nEvery figure is computed anew; what its caption claims is checked by number. "
        "`gradbias figures --all` makes all of them.\n\n"
        f'```{{raw}} html\n<div class="gallery">{"".join(tiles)}</div>\n```\n\n'
        + "\n".join(parts)
        + more
    )


def _figure(figure, anchor: str, pictures: Path) -> str:
    about = json.loads((pictures / f"{figure.id}.json").read_text(encoding="utf-8"))
    rows = "".join(
        f"| {s['what']} | {s['value']:.4g} | {s['needs'].removeprefix('needs ')} |\n"
        for s in about["seen"]
    )
    return (
        f"({anchor})=\n## {figure.id}: {figure.title}\n\n"
        f"![{figure.title}](figures/{figure.id}.svg)\n\n{figure.caption}\n\n"
        f"| checked | measured | needs |\n|---|---|---|\n{rows}\n"
        f'```\n{about["command"]}\n```\n\n```python\nmade = gb.figures.make("{figure.id}")\n'
        "print(made)\nmade.picture()   # a matplotlib Figure; made.data is what it shows\n```\n"
    )


def _anchor(name: str) -> str:
    return "figure-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def reference(made: Path) -> str:
    """One page a room, every public name with its docstring."""
    names = []
    for room, words in ROOMS.items():
        if room == "gradbias.torch" and importlib.util.find_spec("torch") is None:
            continue
        page = "reference-" + room.replace(".", "-")
        _keep(made / f"{page}.md", _room(room, words))
        names.append(page)
    listed = "\n".join(names)
    return f"# Reference\n\n```{{toctree}}\n:maxdepth: 1\n{listed}\n```\n"


def _room(room: str, words: str) -> str:
    module = importlib.import_module(room)
    parts = [f"# {room}\n\n{words}\n"]
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if callable(value) and not name.startswith("__"):
            parts.append(_entry(name, value, "##"))
    return "\n".join(parts)


def _entry(name: str, value, level: str) -> str:
    """Heading, signature and docstring of a name; of a class its public members too."""
    text = [f"{level} {name}\n", f"```\n{name}{_signature(value)}\n```\n", _docstring(value)]
    if inspect.isclass(value):
        for member, function in vars(value).items():
            inner = getattr(function, "fget", None) or getattr(function, "__func__", function)
            if not member.startswith("_") and inspect.isfunction(inner) and inner.__doc__:
                call = "" if isinstance(function, property) else _signature(inner)
                text.append(f"**`.{member}{call}`**\n\n{_docstring(inner)}")
    return "\n".join(text)


def _signature(value) -> str:
    """Arguments without their types, which would fill three lines."""
    try:
        arguments = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "(…)"
    plain = [p.replace(annotation=p.empty) for p in arguments if p.name != "self"]
    return str(inspect.Signature(plain))


def _docstring(value) -> str:
    """A Google docstring as a page: its text is Markdown already, its sections become lists."""
    parsed = docstring_parser.parse(
        inspect.getdoc(value) or "", docstring_parser.DocstringStyle.GOOGLE
    )
    text = [part for part in (parsed.short_description, parsed.long_description) if part]
    listed = [f"- `{p.arg_name}`: {_line(p.description)}" for p in parsed.params]
    if listed:
        text.append("\n".join(listed))
    if parsed.returns is not None and parsed.returns.description:
        text.append(f"Returns: {_line(parsed.returns.description)}")
    return "\n\n".join(text) + "\n"


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def inline(self, node) -> None:
    """A formula in a line."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(self, node) -> None:
    """A formula by itself."""
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode
