"""Options that commands share, and the small things that all of them do."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import logging
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from .._runtime.process import output_file
from .._runtime.terminal import deliver, say, was_closed
from ..config import RunConfig
from ..errors import ConfigError, DataError, visible

STDOUT = Path("-")
_answer_on_stdout = False

#: Former names of options. They still work, are not in the help, and print a notice.
RENAMED = {
    "--known": "--anchor",
    "--bias": "--estimate-offset",
    "--group": "--group-by",
    "--blocks": "--evidence",
}


class Command(TyperCommand):
    """A command that also accepts the former names of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Replace former names, up to `--`, before the options are parsed."""
        mine = {name for parameter in self.params for name in parameter.opts}
        end = args.index("--") if "--" in args else len(args)
        given, used = list(args), {}
        for i, word in enumerate(args[:end]):
            old, equals, value = word.partition("=")
            new = RENAMED.get(old)
            if new in mine and old not in mine:
                given[i], used[old] = f"{new}{equals}{value}", new
        if not ctx.resilient_parsing:  # as completion is
            for old, new in used.items():
                say(f"mechtrace: {old} is now {new}.", err=True)
        return super().parse_args(ctx, given)


def _json_target(path: Path | None) -> Path | None:
    """Check the target of --json, and remember whether stdout is reserved for it."""
    global _answer_on_stdout
    _answer_on_stdout = path == STDOUT
    if _answer_on_stdout and was_closed("stdout"):
        raise DataError("standard output is closed", where="--json -", fix="name a file")
    check_targets([path])
    return path


class _Messages(logging.Handler):
    """Prints log records to stdout, or to stderr while stdout is reserved for JSON."""

    quiet = False

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message."""
        if not self.quiet or record.levelno >= logging.WARNING:
            say(self.format(record), err=_answer_on_stdout)


MESSAGES = _Messages(logging.INFO)


def _silence(quiet: bool) -> bool:
    """With --quiet, print warnings only."""
    MESSAGES.quiet = quiet
    return quiet


def presets() -> list[str]:
    """Names of the simulated worlds, for shell completion."""
    from ..worlds import PRESETS

    return list(PRESETS)


Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=_json_target,
        help="Also write the result as JSON; - writes it to stdout, and messages to stderr.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", callback=_silence, help="Print nothing but errors and warnings."
    ),
]
Data = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA",
        help="Recordings: files (.csv, .xlsx, .parquet, .npz, .zip), folders, patterns in quotes,"
        " videos or folders of images.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")]


def _option(kind: Any, default: Any, help: str, *names: str, **settings: Any) -> tuple[Any, Any]:
    """Return type and default of an option that belongs to a group."""
    return Annotated[kind, typer.Option(*names, help=help, **settings)], default


def _column(help: str, *names: str) -> tuple[Any, Any]:
    return _option(str | None, None, help, *names, metavar="COLUMN")


#: Type and default of the options of a group, by the name of the setting.
Options = Mapping[str, tuple[Any, Any]]


def by_default(setting: str, help: str) -> str:
    """Add the default of a setting of fit to the help of its option."""
    return f"{help} [default: {RunConfig().options()[setting]}]"


#: How recordings are read and prepared.
READING: Options = {
    "time": _column("Column with the time. [default: detected]"),
    "series": _column(
        "Column that names the recording, or several, as subject,trial. [default: detected]"
    ),
    "regime": _column("Column with the regime label. [default: detected]"),
    "group": _column(
        "Column with the group (such as the subject): groups are held out as a whole."
        " [default: none]",
        "--group-by",
    ),
    "channels": _option(
        str | None, None, "Columns with measurements, as x,y,z. [default: detected]",
        metavar="COLUMNS", callback=lambda text: named(text),
    ),
    "missing": _option(
        Literal["error", "gap", "interpolate"] | None, None,
        "Missing cells: refuse them, split the recording, or interpolate. [default: error]",
    ),
    "gap": _option(
        float | None, None,
        "Split a recording where time steps are longer than this (seconds for dates)."
        " [default: 1.5 times the usual step]",
    ),
    "rate": _option(
        float | None, None, "Resample to this many rows per unit of time (per second for dates)."
        " [default: as recorded]",
    ),
    "detrend": _option(
        Literal["mean", "line"] | None, None,
        "Subtract each recording's mean, or its linear trend, per channel. [default: nothing]",
    ),
}  # fmt: skip


def _as_in_the_fit(option: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return an option whose default is what the model remembers."""
    kind, default = option
    shown = copy.copy(kind.__metadata__[0])
    shown.help = re.sub(r"\[default: .*\]", "[default: as in the fit]", shown.help)
    return Annotated[kind.__origin__, shown], default


#: Those of them that a stored model leaves open for new recordings.
READING_NEW: Options = {
    name: _as_in_the_fit(READING[name])
    for name in ("time", "series", "missing", "gap", "rate", "detrend")
}
#: How shares are recovered.
RECOVERY: Options = {
    "method": _option(
        Literal["state-space", "algorithm1"], "state-space",
        "Bayesian smoother, or the paper's Algorithm 1.",
    ),
    "causal": _option(bool, False, "Use only the past of each step.", "--causal"),
    "pool": _option(
        bool, False, "Treat the recordings as repeated trials of one schedule.", "--pool"
    ),
    "active": _option(
        str, "", "Regimes that can occur, as walk,run; auto selects them. [default: all]"
    ),
    "evidence": _option(
        str, "", "Observation models to use, as static or prediction(2),window_moments(16)."
        " [default: those that were best in the fit]",
        callback=lambda text: named(text),
    ),
    "anchor": _option(
        list[str] | None, None,
        "Interval with a known regime, to remove a constant offset (on dates: seconds from the"
        " first, or FROM..TO). Repeatable.",
        metavar="FROM:TO=REGIME",
    ),
    "estimate_offset": _option(
        bool, False, "Estimate a constant offset of this recording from the recording itself.",
        "--estimate-offset",
    ),
    "without": _option(
        list[str] | None, None,
        "Sensor to leave out, as it is broken or missing: the others fill it in. Repeatable.",
        metavar="COLUMN",
    ),
    "level": _option(float, 0.9, "Coverage of the intervals."),
}  # fmt: skip


def with_options(**groups: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace parameters of a command, each a dictionary, by the options of a group.

    Parameters
    ----------
    **groups
        The options that stand in for the parameter of that name. Options that the command
        declares itself are left out. The dictionary holds those that have a value.

    Returns
    -------
    Callable
        A decorator for commands.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        members = {
            group: [name for name in options if name not in signature.parameters]
            for group, options in groups.items()
        }
        shown: list[inspect.Parameter] = []
        for own in signature.parameters.values():
            options = groups.get(own.name)
            shown += [own] if options is None else [
                inspect.Parameter(
                    name, own.kind, annotation=options[name][0], default=options[name][1]
                )
                for name in members[own.name]
            ]  # fmt: skip

        @functools.wraps(command)
        def run(**given: Any) -> None:
            for group, names in members.items():
                found = {name: given.pop(name) for name in names}
                given[group] = {k: value for k, value in found.items() if value is not None}
            command(**given)

        run.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in shown}
        return run

    return decorate


Seed = Annotated[int, typer.Option(help="Seed of the random number generators.", min=0)]
Device = Annotated[str, typer.Option(help="Device: auto, cpu or cuda.")]
Preset = Annotated[
    str,
    typer.Option(help="Simulated world to use.", autocompletion=presets),
]
FitSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting of fit, as latents=4. Repeatable."
    ),
]
Steps = Annotated[int | None, typer.Option(help="Training steps [default: that of fit].")]
TableOut = Annotated[
    Path, typer.Option("--out", "-o", help="Table to write: .csv, .tsv, .parquet or .npz.")
]


class Experts(StrEnum):
    """Families of transition models."""

    affine = "affine"
    nonparametric = "nonparametric"
    spline = "spline"
    maf = "maf"


def write_json(path: Path | None, result: dict[str, Any]) -> None:
    """Write a result as JSON, atomically; - is stdout."""
    if path is None:
        return
    from .._runtime.process import atomic_path

    text = json.dumps(plain(result), indent=1, allow_nan=False)
    if path == STDOUT:
        try:
            deliver(sys.stdout, text + "\n")
        except BrokenPipeError:  # nobody reads the answer, as after `| head`
            raise typer.Exit(128 + 13) from None  # as if ended by SIGPIPE
        return
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def typed_command() -> str:
    """Return the command line of this process, with ~ instead of the home folder."""
    home = str(Path.home())
    words = []
    for word in ["mechtrace", *sys.argv[1:]]:
        inside = len(home) > 1 and word.startswith(home + os.sep)
        words.append(f"~/{shlex.quote(word[len(home) + 1 :])}" if inside else shlex.quote(word))
    return visible(" ".join(words))


def plain(value: Any) -> Any:
    """Convert a result to JSON types: NaN to null, dates to ISO text, durations to seconds."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "m":
        value = value / type(value)(1, "s")
    elif kind and kind != "M":
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def check_targets(targets: Sequence[Path | None], inputs: Sequence[Path] = ()) -> None:
    """Raise DataError if a target cannot be written, is named twice, or is also an input.

    Inputs are files, folders and patterns; names of the same file (links) are one file. Only a
    target that exists can be a file that is read, so otherwise nothing is looked for.
    """
    files = [(one, output_file(one)) for one in targets if one is not None and one != STDOUT]
    seen: set[Path | tuple[int, int]] = set()
    read: set[Path | tuple[int, int]] = set()
    if inputs and any(file.exists() for _, file in files):
        from ..io.discover import files_read

        read = {_identity(path) for path in files_read(inputs)}
    for target, file in files:
        known = _identity(file)
        if known in seen | read:
            what = "is read too" if known in read else "is to be written twice"
            raise DataError(what, where=str(target), fix="name another file")
        seen.add(known)


def _identity(path: Path) -> Path | tuple[int, int]:
    """Return what all names of a file share; of one that does not exist, its path."""
    try:
        found = path.stat()
    except OSError:
        return Path(os.path.realpath(path))
    return found.st_dev, found.st_ino


def named(text: str | None) -> list[str] | None:
    """Split text such as walk,run; None if it is empty."""
    return [part.strip() for part in text.split(",")] if text else None


def numbers(text: str) -> list[int]:
    """Split text such as 0,2,4 into integers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a list of whole numbers", fix="write 0,2,4") from error


def assignments(pairs: list[str]) -> dict[str, Any]:
    """Parse name=value pairs; values are JSON or text."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{pair!r} is not name=value", fix="write --set noise=0.2")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
