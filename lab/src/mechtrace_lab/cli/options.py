"""Options that the commands of the lab share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

Worlds = Annotated[int, typer.Option(help="Number of independent worlds.")]
First = Annotated[int, typer.Option(help="Seed of the first of them.")]


def files_below(folder: Path | None) -> list[Path]:
    """Every file of a data set, by default of all below $MECHTRACE_DATA."""
    from ..datasets.recordings import VARIABLE

    root = folder or os.environ.get(VARIABLE)
    return [path for path in Path(root).rglob("*") if path.is_file()] if root else []


def trained_with(device: str, steps: int | None) -> dict[str, Any]:
    """Settings of the models of a study."""
    return {"device": device} | ({"steps": steps} if steps else {})
