"""The `gradbias` command: what it can do, and how it ends.

Exit codes: 0 done; 1 and 2 are a command's own answers; 3 not done (a wrong argument, or a
problem that was said in one sentence); 130 interrupted; 141 nobody reads any more. Wrong usage
is 3 and not the usual 2, so that a typing error can never be read as an answer.
"""

import functools
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, ParamSpec

import tyro

NOT_DONE = 3
INTERRUPTED = 130
NOBODY_READS = 141
TRACEBACK = "GRADBIAS_TRACEBACK"
P = ParamSpec("P")


def example(out: Path = Path("out")) -> None:
    """Run the example study; write its picture and its table.

    Args:
        out: the directory to write to; made if it does not exist.
    """
    from ._example import run

    run(out)


def verify(
    only: tyro.conf.Positional[str] = "*",
    /,
    *,
    instances: int = 3,
    key: int = 0,
    jobs: int = 0,
    json: Path | None = None,
    all: bool = False,
    mutate: bool = False,
    out: Path | None = None,
) -> int:
    """Try theorems on fresh random instances; exit code 1 if one is refuted.

    Each is also broken with its controls, which must fail, and its errata are shown. The exit
    code is 2 if nothing is refuted but something is inconclusive. With --mutate the predictions
    are made wrong instead, and the exit code is 1 if an error of 3 % passes without a reason; with
    --mutate and --json both are done, on the same runs.

    Args:
        only: a pattern of theorem ids ("rank1.*"), or a Python file that makes theorems.
        instances: how many instances of each.
        key: an integer that decides all of them.
        jobs: processes to use; 0 means one for each core, four at most.
        json: a file to write the rows to.
        all: slow ones, too, which take minutes each.
        mutate: make each prediction wrong, and see who notices.
        out: with --mutate, a file to write the powers to.
    """
    for name, value, least in (("instances", instances, 1), ("jobs", jobs, 0)):
        if value < least:
            raise ValueError(f"--{name} must be at least {least}, got {value}")
    if mutate:
        from ._mutate import run as mutated

        return mutated(only, instances, key, jobs, all, out, json)
    if out is not None:
        raise ValueError("--out goes with --mutate; rows of a plain verification go to --json")
    from ._verify import run

    return run(only, instances, key, jobs, json, all)


def theorems(only: tyro.conf.Positional[str] = "*", /) -> None:
    """List what is known; with one id, show it in full with errata and BibTeX.

    Args:
        only: a pattern of theorem ids ("spectral.*"), or one id.
    """
    from ._theorems import run

    run(only)


def figures(
    only: tyro.conf.Positional[str] = "*",
    /,
    *,
    all: bool = False,
    full: bool = False,
    list: bool = False,
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    style: Literal["paper", "slide"] = "paper",
    format: tyro.conf.UseAppendAction[tuple[Literal["svg", "pdf", "png", "csv", "gif"], ...]] = (),
    out: Path | None = None,
    key: int = 0,
    jobs: int = 0,
) -> int:
    """Re-run and draw the papers' figures; exit code 1 if what must be seen is not.

    What was computed is kept in OUT/.computed: an interrupted call goes on where it was.

    Args:
        only: a pattern of figure ids ("rank1.*"); without one, the default set.
        all: every figure instead of the default set.
        full: at the papers' sizes.
        list: only say which figures there are.
        set: name=value, another value of a setting of one figure; may be repeated.
        style: a column of a page, or a slide.
        format: of the files; may be repeated. svg if none is given.
        out: the folder to write to; by default out/figures, and with --full out/figures-full,
            whose times a report lists.
        key: an integer that decides every draw.
        jobs: processes to use; 0 means one for each core, four at most.
    """
    from ._figures import run

    if jobs < 0:
        raise ValueError(f"--jobs must be at least 0, got {jobs}")
    folder = out or Path("out/figures-full" if full else "out/figures")
    return run(only, all, full, list, set, style, format or ("svg",), folder, key, jobs)


def report(
    *,
    out: Path = Path("out/report.html"),
    fresh: bool = False,
    all: bool = False,
    instances: int = 3,
    key: int = 0,
    jobs: int = 0,
) -> int:
    """Put verdicts, figures and errata on one page that needs nothing else.

    Takes verify.json and figures/ from the folder of OUT and makes what is missing. The exit code
    is that of the parts which were made: 1 if something speaks against a theorem or is not seen.

    Args:
        out: the HTML file; errata.json is written beside it.
        fresh: verify and draw again even if results are there.
        all: every figure, not only the default set.
        instances: how many instances of each theorem.
        key: an integer that decides all of them.
        jobs: processes to use; 0 means one for each core, four at most.
    """
    from ._report import run

    return run(out, fresh, all, instances, key, jobs)


def explore(
    scene: tyro.conf.Positional[str] = "",
    /,
    *,
    port: int = 0,
    browser: bool = True,
) -> None:
    """Open the explorer: theorems with sliders, in the browser of this machine.

    Nothing leaves the machine, and no network is needed. Ctrl-C ends it.

    Args:
        scene: where to begin, such as "label_noise"; the first scene by default.
        port: of 127.0.0.1; 0 takes one that is free.
        browser: open it; else only say the address.
    """
    from ._explore import run

    run(scene, port, browser)


def torch(
    what: tyro.conf.Positional[Literal["inspect"]],
    factory: tyro.conf.Positional[str],
    /,
    *,
    batch_size: int | None = None,
    out: Path | None = None,
) -> None:
    """Look at a PyTorch model: symmetries, balance, gradient noise, sharpness, advice.

    The factory is a function without arguments that gives (model, batch), (model, loss_fn, batch)
    or (model, optimizer, loss_fn, batch). With an optimizer it is also said which theorems hold for
    the run. The folder you are in is searched for the module.

    Args:
        what: what to do.
        factory: module:factory, such as train:build.
        batch_size: samples of a training step, if not all of the batch; with an optimizer.
        out: an HTML file to write the same to.
    """
    from ._torch import run

    if batch_size is not None and batch_size < 1:
        raise ValueError(f"--batch-size must be at least 1, got {batch_size}")
    run(factory, batch_size, out)


# A command returns its exit code, or None for 0. Its function is named here and imports its
# work inside, so that help never waits for jax.
COMMANDS: dict[str, Callable[..., int | None]] = {
    "example": example,
    "verify": verify,
    "theorems": theorems,
    "figures": figures,
    "report": report,
    "explore": explore,
    "torch": torch,
}

DESCRIPTION = """Which minimum a gradient method picks, how fast and why.

gradbias --version shows the version."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        args: what follows `gradbias` on the command line; `sys.argv` if None.

    Returns:
        The exit code.
    """
    _write_anywhere()
    words = list(sys.argv[1:] if args is None else args)
    if words == ["--version"]:
        from .. import __version__

        print(f"gradbias {__version__}")
        return 0
    try:
        return _dispatch(words or ["--help"])
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:  # `gradbias … | head`: say nothing more, at exit neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except (ValueError, OSError) as error:
        if os.environ.get(TRACEBACK):
            raise
        return _say(f"{error} (set {TRACEBACK}=1 to see where this was said)", NOT_DONE)


def _write_anywhere() -> None:
    """A terminal that cannot show a θ shows a question mark, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(words: list[str]) -> int:
    try:
        command = tyro.extras.subcommand_cli_from_dict(
            {name: _later(command) for name, command in COMMANDS.items()},
            prog="gradbias",
            description=DESCRIPTION,
            args=words,
        )
    except SystemExit as end:  # 0 after help, 2 after words that tyro does not know
        return NOT_DONE if end.code else 0
    return command() or 0


def _later(command: Callable[P, int | None]) -> Callable[P, Callable[[], int | None]]:
    """The same arguments, but only bound: what goes wrong while parsing is told from the rest."""

    @functools.wraps(command)
    def bind(*args: P.args, **kwargs: P.kwargs) -> Callable[[], int | None]:
        return functools.partial(command, *args, **kwargs)

    return bind


def _say(sentence: str, code: int) -> int:
    print(f"gradbias: {sentence}", file=sys.stderr)
    return code
