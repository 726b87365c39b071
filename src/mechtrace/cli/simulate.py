"""Commands that need no data: simulate, and demo, the whole way once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from .options import (
    Json,
    Preset,
    Quiet,
    Seed,
    Steps,
    assignments,
    check_targets,
    numbers,
    write_json,
)  # fmt: skip

logger = logging.getLogger(__name__)


def simulate(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: .csv, .tsv, .parquet or .npz.")
    ],
    world: Preset = "paper",
    series: Annotated[
        int, typer.Option(help="Recordings of each regime, or of the transition.", min=1)
    ] = 400,
    transition: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEDULE", help="Simulate unlabelled recordings with this schedule of shares."
        ),
    ] = None,
    active: Annotated[
        str, typer.Option(help="Regimes that take part in the transition, as 0,2,4.")
    ] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the world, as noise=0.3. Repeatable.",
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(help="Also write the true latents, shares, W(t) and means (.npz)."),
    ] = None,
    seed: Seed = 0,
    world_seed: Annotated[
        int, typer.Option(help="Seed of the parameters of the world.", min=0)
    ] = 0,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Simulate recordings of a world with known truth.

    \b
    Examples:
      mechtrace simulate --out runs.csv --series 100
      mechtrace simulate --out glide.csv --transition simple --active 0,2,4 --series 1
      mechtrace simulate --out noisy.parquet --set noise=0.3 --set regimes=3
      mechtrace simulate --out film.npz --world cartpole --set size=64 --series 20
    """
    from .. import worlds
    from ..errors import DataError
    from ..io.frames import MAX_BYTES
    from ..io.tables import check_table, write_panel

    check_targets([out, truth, json_file])
    check_table(out)
    drawn = worlds.make(world, seed=world_seed, **assignments(option or []))
    if transition is None:
        result = drawn.simulate(series, seed=seed)
    else:
        chosen = numbers(active) if active else None
        result = drawn.transition(transition, series=series, active=chosen, seed=seed)
    panel = result.panel
    size = panel.values.nbytes
    if panel.is_image and size > MAX_BYTES:
        what = f"the pictures would take {size / 1e9:.1f} GB"
        raise DataError(
            what, where=str(out), fix="use fewer --series, or --set size=64 --set length=50"
        )
    write_panel(panel, out)
    if truth is not None:
        worlds.write_truth(result, truth)
    logger.info(f"{out}: {panel!r}")
    write_json(json_file, {"file": str(out), "world": world, "seed": seed, "series": series})


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo-out"),
    seed: Seed = 0,
    steps: Steps = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Simulate, fit, recover and compare with the truth; no data needed.

    \b
    Example:
      mechtrace demo --out demo-out
    """
    from ..demo import FILES, run_demo

    check_targets([json_file, *([out / name for name in FILES] if out.is_dir() else [])])
    summary = run_demo(out, seed=seed, steps=steps, progress=not quiet)
    write_json(json_file, summary)
