"""Options that commands share, and the small things that all of them do."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import ConfigError, DataError

Json = Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
TimeColumn = Annotated[str | None, typer.Option("--time", help="Column with the time.")]
SeriesColumn = Annotated[
    str | None, typer.Option("--series", help="Column that names the recording.")
]
Missing = Annotated[
    str | None, typer.Option("--missing", help="Missing cells: error, gap or interpolate.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Preset = Annotated[str, typer.Option(help="Preset of the world.")]
Worlds = Annotated[int, typer.Option(help="Fresh worlds.")]
Steps = Annotated[int | None, typer.Option(help="Training steps (default: as fit).")]


class Experts(StrEnum):
    """Kinds of experts."""

    affine = "affine"
    nonparametric = "nonparametric"
    spline = "spline"
    maf = "maf"


def trained_with(device: str, steps: int | None) -> dict[str, Any]:
    """Settings of the models of a study."""
    return {"device": device} | ({"steps": steps} if steps else {})


def sayer(quiet: bool) -> Any:
    """How to speak: aloud or not at all."""
    return (lambda text: None) if quiet else typer.echo


def write_json(path: Path | None, result: dict[str, Any]) -> None:
    """Write a result for machines, whole or not at all."""
    if path is None:
        return
    from .atomic import atomic_path

    with atomic_path(path) as temporary:
        text = json.dumps(_without_nan(result), indent=1, default=plain, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _without_nan(value: Any) -> Any:
    """NaN and infinity are not JSON: they become null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any) -> Any:
    """numpy numbers and times for JSON."""
    item = value.item() if hasattr(value, "item") else value
    return item if isinstance(item, (int, float)) else str(value)


def write_panel(panel: Any, path: Path) -> None:
    """Write recordings in the format of the suffix."""
    writers = {".csv": "to_csv", ".parquet": "to_parquet", ".npz": "to_npz"}
    if path.suffix.lower() not in writers:
        raise DataError(
            "is not a file type that can be written",
            where=str(path),
            fix="use .csv, .parquet or .npz",
        )
    getattr(panel, writers[path.suffix.lower()])(path)


def write_table(paths: list[Any], out: Path) -> None:
    """Write recovered curves as one table."""
    _write_frames({path.name: path.to_frame() for path in paths}, out)


def write_edges(mechanisms: Any, paths: list[Any], out: Path) -> None:
    """Write the edges of W(t) of recovered curves as one table."""
    _write_frames({path.name: mechanisms.edges(path) for path in paths}, out)


def _write_frames(frames: dict[str, Any], out: Path) -> None:
    """One table of all series, with their names in front."""
    import pandas as pd

    from .atomic import atomic_path

    named = [frame.assign(series=name) for name, frame in frames.items()]
    frame = pd.concat(named, ignore_index=True)
    frame.insert(0, "series", frame.pop("series"))
    with atomic_path(out) as temporary:
        if out.suffix.lower() == ".csv":
            frame.to_csv(temporary, index=False)
        else:
            frame.to_parquet(temporary)


def check_target(path: Path) -> None:
    """Refuse a bad target before hours of work, not after."""
    if path.is_dir() or not path.parent.is_dir():
        raise DataError(
            "the model cannot be written there",
            where=str(path),
            fix="choose a file in an existing folder",
        )


def check_table(path: Path) -> None:
    """Refuse a table of a type that is not written."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(
            "the file type cannot be written", where=str(path), fix="use .csv, .parquet"
        )


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
