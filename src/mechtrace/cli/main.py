"""The command line: the commands together, and how they end."""

from __future__ import annotations

import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from .cli_bench_data import bench_app
from .cli_compare import compare
from .cli_datasets import datasets
from .cli_evaluate import evaluate
from .cli_fit import fit
from .cli_motion import motion
from .cli_options import Json, Quiet, sayer, write_json
from .cli_recover import calibrate, diagnose, recover, report
from .cli_reproduce import reproduce
from .cli_start import start
from .cli_worlds import demo, simulate
from .errors import DataWarning, FitWarning, MechtraceError

HELP = """How much of each mechanism is at work, when, and how surely.

\b
From two tables to a report:
  mechtrace fit runs.csv --out runs.mechtrace
  mechtrace recover runs.mechtrace new.csv --out alpha.csv --report alpha.html

\b
Without data:
  mechtrace demo

Every command explains itself (mechtrace fit --help), writes its result as JSON (--json FILE, or
--json - for stdout) and is silent with --quiet. Exit codes: 0 for success, 1 for an answer with
reservations (diagnose --strict, compare), 2 for bad input, 130 after Ctrl-C or a request to end.
For completion with the Tab key: mechtrace --install-completion, then a new shell.
"""

BENCH_HELP = """Measure mechtrace on this machine.

\b
Example:
  mechtrace bench train --json train.json
"""

app = typer.Typer(
    name="mechtrace", help=HELP, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from . import __version__

        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def info(
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A stored model or a checkpoint.")],
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show what a stored model is: data, settings, training, versions.

    \b
    Examples:
      mechtrace info gait.mechtrace
      mechtrace info gait.mechtrace --json - | jq .regimes
    """
    from .estimator import load

    trace = load(file)
    sayer(quiet)(trace.card_.rstrip())
    write_json(json_file, trace.facts_)


COMMANDS: dict[Callable[..., None], str] = {
    demo: "Simulate, learn and recover: no data needed.",
    simulate: "Write recordings of a world with known truth.",
    fit: "Learn one mechanism per regime.",
    recover: "How much of each mechanism is at work, when.",
    diagnose: "Can the curves be trusted, and if not, why.",
    report: "One HTML file: answer, picture, evidence.",
    calibrate: "Correct curves where the regime is known.",
    evaluate: "Curves against what is known of recordings.",
    compare: "Other methods on the same data, judged alike.",
    reproduce: "The paper's tables, measured again.",
    motion: "Captured motions (BVH) become tables.",
    datasets: "Public recordings, and where they come from.",
    info: "What a stored model is.",
}
for command, summary in COMMANDS.items():
    app.command(short_help=summary)(command)
bench_app.command("start")(start)
app.add_typer(bench_app, name="bench", help=BENCH_HELP)


def main() -> None:
    """Run the command line; every error on purpose is one sentence and exit code 2."""
    warnings.showwarning = _one_line(warnings.showwarning)
    try:
        with _ended_as_by_ctrl_c():
            code = _built()(prog_name="mechtrace", standalone_mode=False)
    except MechtraceError as error:
        _refuse(_as_options(error))
    except _usage_errors() as error:
        if error.format_message().startswith("Usage:"):  # a group of commands without one
            typer.echo(error.format_message())
            sys.exit(0)
        _refuse(_usage(error))
    except OSError as error:  # a disk that is full, a file that may not be read
        where = f"{error.filename}: " if error.filename else ""
        _refuse(f"{where}{error.strerror or error}; check disk space and permissions.")
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """A request to end (kill, the time limit of a cluster) is Ctrl-C: what is done is kept."""

    def on_request(number: int, frame: FrameType | None) -> None:
        heard = signal.getsignal(signal.SIGINT)
        if not callable(heard):  # in the background shells have Ctrl-C ignored
            raise KeyboardInterrupt
        heard(number, frame)

    before = signal.signal(signal.SIGTERM, on_request)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _usage_errors() -> Any:
    """What typer raises for words it does not know; before version 0.29 that was click's own."""
    if hasattr(typer, "TyperException"):
        return typer.TyperException
    import click  # type: ignore[import-not-found]

    return click.ClickException


@cache
def _built() -> Callable[..., Any]:
    """The commands as typer builds them, which takes longer than most of them need to refuse."""
    return typer.main.get_command(app)


def _refuse(sentence: str) -> None:
    typer.echo(f"mechtrace: {sentence}", err=True)
    sys.exit(2)


#: Settings that errors speak of as Python does, and that are options here.
_SETTING = re.compile(r"""\b([a-z_]+)=(["']?)([^\s"'(),;]+)\2""")
_OPTIONS = {
    "time", "series", "regime", "group", "channels", "missing", "gap", "lr", "device", "method",
}  # fmt: skip


def _as_options(error: MechtraceError) -> str:
    """The sentence, with advice in the words of the command line: --missing gap."""

    def option(found: re.Match[str]) -> str:
        return f"--{found[1]} {found[3]}" if found[1] in _OPTIONS else found[0]

    fix = error.fix and _SETTING.sub(option, error.fix)
    return str(MechtraceError(error.what, where=error.where, fix=fix))


def _usage(error: Any) -> str:
    """What is wrong with the command itself, as one sentence."""
    said = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "mechtrace"
    return f"{said[:1].lower()}{said[1:]}; see {path} --help."


def _one_line(usual: Any) -> Any:
    """Warnings about a fit as a sentence, without the place in the code."""

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, (DataWarning, FitWarning)):
            typer.echo(f"mechtrace: warning: {message}", err=True)
        else:
            usual(message, category, *place, **more)

    return show


if __name__ == "__main__":
    main()
