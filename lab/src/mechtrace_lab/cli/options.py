"""Options that the commands of the lab share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Worlds = Annotated[int, typer.Option(help="Number of independent worlds.")]
First = Annotated[int, typer.Option(help="Seed of the first of them.")]


def trained_with(device: str, steps: int | None) -> dict[str, Any]:
    """Settings of the models of a study."""
    return {"device": device} | ({"steps": steps} if steps else {})
