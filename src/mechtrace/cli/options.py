"""Options that commands share, and the small things that all of them do."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .errors import ConfigError, DataError

STDOUT = Path("-")
_answer_on_stdout = False


def _json_target(path: Path | None) -> Path | None:
    """Refuse a bad target at once, and keep stdout free for the answer if it is to go there."""
    global _answer_on_stdout
    _answer_on_stdout = path == STDOUT
    if path is not None and path != STDOUT:
        check_target(path)
    return path


def presets() -> list[str]:
    """For completion, which alone has to know them before the command runs."""
    from .worlds import PRESETS

    return list(PRESETS)


Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=_json_target,
        help="Also write the result as JSON; - prints it, and messages go to stderr.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.")
]
Data = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA",
        help="Recordings: files (.csv, .tsv, .parquet, .npz), folders, patterns in quotes, videos"
        " or folders of images.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")]
TimeColumn = Annotated[
    str | None, typer.Option("--time", metavar="COLUMN", help="Column with the time.")
]
SeriesColumn = Annotated[
    str | None,
    typer.Option(
        "--series",
        metavar="COLUMN",
        help="Column that names the recording, or several as subject,trial.",
    ),
]
RegimeColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column with the regime.")
]
GroupColumn = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="COLUMN", help="Column of what is held out together, as subject."
    ),
]
Missing = Annotated[
    Literal["error", "gap", "interpolate"] | None,
    typer.Option("--missing", help="What missing cells are (default: error)."),
]
Gap = Annotated[
    float | None,
    typer.Option(
        "--gap", help="Largest step in time that continues a recording; seconds for dates."
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(help="Resample to so many rows per unit of time (per second for dates)."),
]
Detrend = Annotated[
    Literal["mean", "line"] | None,
    typer.Option(help="Remove each channel's mean, or line in time, from every recording."),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Preset = Annotated[
    str,
    typer.Option(help="Preset of the world.", autocompletion=presets),
]
Worlds = Annotated[int, typer.Option(help="Fresh worlds.")]
First = Annotated[int, typer.Option(help="Seed of the first of them.")]
FitSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the fits, as latents=4."),
]
Steps = Annotated[int | None, typer.Option(help="Training steps (default: as fit).")]
TableOut = Annotated[
    Path, typer.Option("--out", "-o", help="Table to write: .csv, .tsv, .parquet or .npz.")
]

# What can be asked of a recovery.
Method = Annotated[
    Literal["state-space", "algorithm1"], typer.Option(help="How alpha(t) is recovered.")
]
Causal = Annotated[bool, typer.Option("--causal", help="Use only the past.")]
Pool = Annotated[bool, typer.Option("--pool", help="Trials of one schedule.")]
Active = Annotated[str, typer.Option(help="Regimes that can occur, as walk,run; auto finds them.")]
BlockNames = Annotated[
    str, typer.Option("--blocks", help="Evidence, as static or conditional(2),moments(16).")
]
KnownStretches = Annotated[
    list[str] | None,
    typer.Option("--known", help="FROM:TO=REGIME: known, to remove an offset."),
]
Bias = Annotated[bool, typer.Option("--bias", help="Look for an offset without that.")]
Level = Annotated[float, typer.Option(help="Level of the intervals.")]


class Experts(StrEnum):
    """Kinds of experts."""

    affine = "affine"
    nonparametric = "nonparametric"
    spline = "spline"
    maf = "maf"


def trained_with(device: str, steps: int | None) -> dict[str, Any]:
    """Settings of the models of a study."""
    return {"device": device} | ({"steps": steps} if steps else {})


def sayer(quiet: bool) -> Callable[[str], None]:
    """How to speak: not at all, aloud, or on stderr while stdout is for the answer."""
    if quiet:
        return lambda text: None
    on_stderr = _answer_on_stdout
    return lambda text: typer.echo(text, err=on_stderr)


def write_json(path: Path | None, result: dict[str, Any]) -> None:
    """Write a result for machines, whole or not at all; - is stdout."""
    if path is None:
        return
    from .atomic import atomic_path

    text = json.dumps(plain(result), indent=1, allow_nan=False)
    if path == STDOUT:
        typer.echo(text)
        return
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """A result as JSON has it: NaN is null, dates are ISO text, durations are seconds."""
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


def check_target(path: Path) -> None:
    """Refuse a bad target before hours of work, not after."""
    if path.is_dir():
        what = "this is a folder"
    elif not path.parent.is_dir():
        what = "the folder to write to does not exist"
    elif not os.access(path.parent, os.W_OK):
        what = "the folder cannot be written to"
    else:
        return
    raise DataError(what, where=str(path), fix="choose a file in an existing folder")


def check_targets(targets: Sequence[Path | None], inputs: Sequence[Path] = ()) -> None:
    """Refuse targets that are bad, the same as another, or the data itself."""
    seen: set[Path] = set()
    sources = {path.resolve() for path in inputs}
    for target in targets:
        if target is None or target == STDOUT:
            continue
        check_target(target)
        if target.resolve() in seen | sources:
            what = "is read too" if target.resolve() in sources else "is to be written twice"
            raise DataError(what, where=str(target), fix="name another file")
        seen.add(target.resolve())


def named(text: str) -> list[str] | None:
    """Names from text such as walk,run; None if there are none."""
    return [part.strip() for part in text.split(",")] if text else None


def numbers(text: str) -> list[int]:
    """Whole numbers from text such as 0,2,4."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a list of whole numbers", fix="write 0,2,4") from error


def options(pairs: list[str]) -> dict[str, Any]:
    """Options of a world from name=value pairs; values are JSON or text."""
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
