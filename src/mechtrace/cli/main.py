"""The command line: the commands together, and how they end."""

from __future__ import annotations

import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from .._runtime.progress import handling
from .._runtime.terminal import open_closed_streams, say, take_failure
from ..errors import DataWarning, FitWarning, MechtraceError, MissingDependency, visible
from .options import MESSAGES, Command

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

HELP = """How much of each mechanism is at work, when, and how surely.

\b
From two tables to a report:
  mechtrace fit runs.csv --out runs.mechtrace
  mechtrace recover runs.mechtrace new.csv --out alpha.csv --report alpha.html

\b
Without data:
  mechtrace demo

Every command has its own help (mechtrace fit --help), writes its result as JSON (--json FILE, or
--json - for stdout) and is silent with --quiet. Exit codes: 0 for success, 1 for an answer with
reservations (diagnose --strict, compare), 2 for bad input, 130 after Ctrl-C, SIGTERM or
SIGHUP.
For completion with the Tab key: mechtrace --install-completion, then a new shell.
"""

#: Our commands; each is a function of that name.
COMMANDS = {
    "demo": "Simulate, fit and recover: no data needed.",
    "simulate": "Write recordings of a world with known truth.",
    "fit": "Learn one mechanism per regime.",
    "recover": "Recover the share of each mechanism over time.",
    "diagnose": "Check whether the recovered shares can be trusted.",
    "report": "Write an HTML report: answer, figures, evidence.",
    "calibrate": "Correct recovered shares by known intervals.",
    "evaluate": "Score recovered shares against what is known.",
    "describe": "Say what sets regimes apart, in terms of the sensors.",
    "info": "Describe a stored model.",
}
#: Their modules, where they are not named after the command.
MODULES = {"demo": "simulate"} | dict.fromkeys(
    ("diagnose", "report", "calibrate", "info"), "recover"
)
#: Commands of `mechtrace-lab`, which it plugs in by entry points.
LAB_COMMANDS = {
    "compare": "Compare methods on the same data.",
    "reproduce": "Measure the paper's tables again.",
    "motion": "Convert motion capture (BVH) to tables.",
    "datasets": "List public recordings and their sources.",
    "bench": "Measure mechtrace on this machine.",
}
NEEDS_LAB = " (needs mechtrace-lab)"


class _Commands(Mapping[str, Any]):
    """Commands by name, imported when they are first looked up."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group="mechtrace.commands")}

    def __iter__(self) -> Iterator[str]:
        return iter({**COMMANDS, **LAB_COMMANDS, **self._plugins})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = self._build(name)
        return self._built[name]

    def _build(self, name: str) -> Any:
        settings: dict[str, Any] = {}
        if name in COMMANDS:
            found = getattr(import_module(f".{MODULES.get(name, name)}", __package__), name)
        elif name in self._plugins:
            found = self._plugins[name].load()
        elif name in LAB_COMMANDS:
            found = _not_installed(name)
            settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        else:
            raise KeyError(name)
        if isinstance(found, typer.Typer):
            command = typer.main.get_group(found)
            command.name = name
            return command
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        summary = self.summary(name) if name in {**COMMANDS, **LAB_COMMANDS} else None
        alone.command(name, cls=Command, short_help=summary, context_settings=settings)(found)
        return typer.main.get_command(alone)

    def summary(self, name: str) -> str:
        """One line about a command, without importing ours or those of the lab."""
        if name in COMMANDS:
            return COMMANDS[name]
        if name in LAB_COMMANDS:
            return LAB_COMMANDS[name] + ("" if name in self._plugins else NEEDS_LAB)
        return str(self[name].get_short_help_str())


class _Group(TyperGroup):
    """The main command: lists its commands without importing them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands of the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands.summary(name)) for name in self.commands])


app = typer.Typer(
    name="mechtrace", cls=_Group, help=HELP, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    context.with_resource(handling(MESSAGES))
    if version:
        from .. import __version__

        say(__version__)
    elif context.invoked_subcommand is None:
        say(context.get_help())


def _not_installed(name: str) -> Callable[..., None]:
    def refuse(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        """Part of mechtrace-lab, which is not installed."""
        raise MissingDependency(
            f"`mechtrace {name}` is part of mechtrace-lab", fix='pip install "mechtrace[lab]"'
        )

    return refuse


def main() -> None:
    """Run the command line; an error of ours is one sentence and exit code 2."""
    open_closed_streams()
    try:
        with _signals_as_ctrl_c(), warnings.catch_warnings():
            warnings.showwarning = _one_line(warnings.showwarning)
            code = _built()(prog_name="mechtrace", standalone_mode=False)
    except MechtraceError as error:
        _refuse(_as_options(error))
    except _usage_errors() as error:
        if error.format_message().startswith("Usage:"):  # a group of commands without one
            say(error.format_message())
            sys.exit(0)
        _refuse(_usage(error))
    except Warning as error:  # PYTHONWARNINGS=error asks for it
        _refuse(f"{str(error).rstrip('.')}; this is a warning that PYTHONWARNINGS makes an error.")
    except OSError as error:
        _refuse(_io_sentence(error))
    failure = take_failure()
    if failure is not None:
        _refuse(_io_sentence(failure))
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM (kill, the time limit of a cluster) as Ctrl-C, so that results are kept.

    So is SIGHUP (the terminal is gone), unless it is ignored, as after nohup.
    """

    def on_request(number: int, frame: FrameType | None) -> None:
        heard = signal.getsignal(signal.SIGINT)
        if not callable(heard):  # shells ignore Ctrl-C in background jobs
            raise KeyboardInterrupt
        heard(number, frame)

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.getsignal(number) for number in numbers}
    heard = {number: was for number, was in before.items() if was != signal.SIG_IGN}
    for number in heard:
        signal.signal(number, on_request)
    try:
        yield
    finally:
        for number, was in heard.items():
            signal.signal(number, was)


def _usage_errors() -> Any:
    """Return typer's exception for bad usage; before version 0.29 that was click's own."""
    if hasattr(typer, "TyperException"):
        return typer.TyperException
    import click  # type: ignore[import-not-found]

    return click.ClickException


@cache
def _built() -> Callable[..., Any]:
    return typer.main.get_command(app)


def _refuse(sentence: str) -> None:
    say(f"mechtrace: {visible(sentence)}", err=True)
    sys.exit(2)


def _io_sentence(error: OSError) -> str:
    """Write an error of the system as one sentence: a full disk, or no permission."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; check disk space and permissions."


#: Keyword arguments in the advice of errors, and the options that they are here.
_SETTING = re.compile(r"""\b([a-z_]+)=(["']?)([^\s"'(),;]+)\2""")
_KEYWORDS = ("time", "series", "regime", "channels", "missing", "gap", "lr", "device", "method")
_OPTIONS = {"group": "--group-by"} | {name: f"--{name}" for name in _KEYWORDS}
_FLAGS = {"resume=True": "--resume", "restart=True": "--restart"}


def _as_options(error: MechtraceError) -> str:
    """Write an error with options instead of keyword arguments in its advice."""

    def option(found: re.Match[str]) -> str:
        usual = f"{_OPTIONS[found[1]]} {found[3]}" if found[1] in _OPTIONS else found[0]
        return _FLAGS.get(found[0], usual)

    fix = error.fix and _SETTING.sub(option, error.fix)
    return str(MechtraceError(error.what, where=error.where, fix=fix))


def _usage(error: Any) -> str:
    """Write a usage error as one sentence."""
    said = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "mechtrace"
    return f"{said[:1].lower()}{said[1:]}; see {path} --help."


def _one_line(usual: Any) -> Any:
    """Show our own warnings as a sentence, without file and line."""

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, (DataWarning, FitWarning)):
            say(f"mechtrace: warning: {visible(str(message))}", err=True)
        else:
            usual(message, category, *place, **more)

    return show


if __name__ == "__main__":
    main()
