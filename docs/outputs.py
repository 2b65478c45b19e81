"""What the blocks of the pages print, below each block: `make docs` writes it anew.

A page is Markdown with blocks of Python, which run one after the other in one namespace; what a
block prints stands behind it as a block of text. The tests run the pages and compare, by
`differences`, what is printed then with what stands there.
"""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
ROUNDING = 1e-8  # numbers below it are what rounding leaves: another machine leaves another one
SAME = 0.02  # numbers that differ by less are printed alike on every machine
PASSING = re.compile(r"\d+ compilations?, [\d.]+ s|\([\d.]+ s\)")  # never twice the same


def blocks(text: str) -> list[tuple[str, str]]:
    """Code and shown output of every block."""
    return [(found[1], found[2] or "") for found in BLOCK.finditer(text)]


def printed(path: Path, names: dict | None = None) -> Iterator[str]:
    """What each block of a page prints, one after the other."""
    return printed_by(path.read_text(encoding="utf-8"), path.name, names)


def printed_by(text: str, name: str, names: dict | None = None) -> Iterator[str]:
    """What each block of a text prints; `name` is for messages."""
    names = {"__name__": Path(name).stem} if names is None else names
    for number, (code, _) in enumerate(blocks(text), start=1):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, f"{name}, block {number}", "exec"), names)
        yield _tidy(out.getvalue())


def with_outputs(text: str, outputs: list[str]) -> str:
    """The page with these outputs below its blocks."""
    waiting = iter(outputs)

    def block(found: re.Match[str]) -> str:
        out = next(waiting)
        return f"```python\n{found[1]}```\n" + (f"\n```text\n{out}```\n" if out else "")

    return BLOCK.sub(block, text)


def differences(shown: str, out: str) -> list[str]:
    """In which lines two outputs differ; numbers may, by rounding."""
    pairs = zip(_lines(shown), _lines(out), strict=False)
    found = [f"{one!r} is now {other!r}" for one, other in pairs if not _alike(one, other)]
    if len(_lines(shown)) != len(_lines(out)):
        found.append(f"{len(_lines(shown))} lines are now {len(_lines(out))}")
    return found


def _alike(one: str, other: str) -> bool:
    words = [" ".join(NUMBER.sub("#", line).split()) for line in (one, other)]
    numbers = [[float(n) for n in NUMBER.findall(line)] for line in (one, other)]
    return words[0] == words[1] and all(map(_close, *numbers))


def _close(one: float, other: float) -> bool:
    size = max(abs(one), abs(other))
    return size < ROUNDING or abs(one - other) <= SAME * size


def _lines(text: str) -> list[str]:
    return [PASSING.sub("…", line).rstrip() for line in text.splitlines()]


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).rstrip() + "\n" if text.strip() else ""


def main(names: list[str]) -> None:
    """Write what the blocks of these pages print below them; of all pages if none is named."""
    every = [p for p in sorted(DOCS.rglob("*.md")) if not {"made", "build"} & set(p.parts)]
    for path in map(Path, names) if names else every:
        text = path.read_text(encoding="utf-8")
        if not blocks(text) or path.stem.startswith("torch"):  # these have a test of their own
            continue
        outputs = list(printed(path))
        old = [shown for _, shown in blocks(text)]
        for number, (shown, out) in enumerate(zip(old, outputs, strict=True), start=1):
            for line in differences(shown, out):
                print(f"{path.name}, block {number}: {line}")
        if any(differences(shown, out) for shown, out in zip(old, outputs, strict=True)):
            path.write_text(with_outputs(text, outputs), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
