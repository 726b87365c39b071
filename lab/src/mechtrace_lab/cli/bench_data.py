"""`mechtrace bench` on pictures and on real recordings."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from mechtrace.cli import (
    Device,
    FitSettings,
    Json,
    Quiet,
    Steps,
    assignments,
    check_targets,
    named,
    numbers,
    write_json,
)

from .bench import bench_app
from .options import First, Worlds, files_below, trained_with
from .start import start

__all__ = ["bench_app"]

logger = logging.getLogger(__name__)

bench_app.command("start")(start)

Methods = Annotated[str, typer.Option(help="Which, as lda,mechtrace (default: all).")]
Workers = Annotated[int, typer.Option(help="Folds that are learned at once.", min=1)]


@bench_app.command("cartpole")
def bench_cartpole(
    series: Annotated[int, typer.Option(help="Recordings of each regime.")] = 1000,
    size: Annotated[int, typer.Option(help="Side of the pictures in pixels.")] = 64,
    length: Annotated[int, typer.Option(help="Pictures in a recording.")] = 100,
    active: Annotated[str, typer.Option(help="How many regimes take part.")] = "3,5",
    trials: Annotated[int, typer.Option(help="Transitions to pool.")] = 200,
    encoder: Annotated[str, typer.Option(help="auto (key points) or image (pixels).")] = "auto",
    seeds: Worlds = 3,
    first: First = 0,
    steps: Steps = None,
    device: Device = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Learning from pixels: latents, weights and seconds in the world of a cart with a pole.

    Example: mechtrace bench cartpole --series 100 --size 32 --seeds 1
    """
    from ..studies.cartpole import cartpole_study

    cartpole_study(
        series=series, size=size, length=length, active=numbers(active), trials=trials,
        seeds=seeds, first=first, encoder=encoder,
        on_result=lambda result: write_json(json_file, result), **trained_with(device, steps),
    )  # fmt: skip


@bench_app.command("gait")
def bench_gait(
    data: Annotated[
        Path | None, typer.Option(help="Folder of trials (default: below $MECHTRACE_DATA).")
    ] = None,
    features: Annotated[str, typer.Option(help="Sets of channels.")] = "paper,legs",
    methods: Methods = "",
    seeds: Annotated[int, typer.Option(help="Fits of each fold.", min=1)] = 3,
    rate: Annotated[float, typer.Option(help="Rows per second.")] = 30.0,
    workers: Workers = 1,
    option: FitSettings = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Walking and running of people never seen before: the paper's gait experiment.

    \b
    Example:
      mechtrace bench gait --data data/cmu_mocap --json results/gait-cmu.json
    """
    from ..reproduction.gait import METHODS, gait_study

    check_targets([json_file], files_below(data))
    result = gait_study(
        data, features=named(features) or (), seeds=seeds, rate=rate,
        methods=named(methods) or METHODS, workers=workers,
        **assignments(option or []),
    )  # fmt: skip
    write_json(json_file, result)


@bench_app.command("vehicles")
def bench_vehicles(
    data: Annotated[
        Path | None, typer.Option(help="Folder of tracks (default: below $MECHTRACE_DATA).")
    ] = None,
    features: Annotated[str, typer.Option(help="Sets of channels.")] = (
        "motion,direction,folded,shape"
    ),
    methods: Methods = "",
    seeds: Annotated[int, typer.Option(help="Fits of each fold.", min=1)] = 5,
    folds: Annotated[int, typer.Option(help="Parts that sequences are dealt to.", min=2)] = 5,
    workers: Workers = 1,
    option: FitSettings = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Turns of vehicles in sequences never seen before: the paper's vehicle experiment.

    The file is written anew after every seed.

    \b
    Example:
      mechtrace bench vehicles --data data/uavdt --json results/vehicles-uavdt.json
    """
    from ..reproduction.uavdt_boxes import vehicle_study
    from ..reproduction.uavdt_methods import METHODS

    check_targets([json_file], files_below(data))
    vehicle_study(
        data, features=named(features) or (), seeds=seeds, methods=named(methods) or METHODS,
        folds=folds, workers=workers,
        on_result=lambda result: write_json(json_file, result), **assignments(option or []),
    )  # fmt: skip


@bench_app.command("turn")
def bench_frames(
    data: Annotated[
        Path | None, typer.Option(help="Folder of UAVDT (default: below $MECHTRACE_DATA).")
    ] = None,
    tracks: Annotated[int, typer.Option(help="Straight tracks of each regime.", min=2)] = 190,
    seeds: Annotated[int, typer.Option(help="Fits, each to other tracks.", min=1)] = 3,
    option: FitSettings = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """A vehicle that turns, in real frames, learned from painted films of straight vehicles.

    \b
    Example:
      mechtrace bench turn --data data/uavdt --json results/vehicle-frames.json
    """
    from ..reproduction.uavdt_frames import frames_study

    check_targets([json_file], files_below(data))
    frames_study(
        data, tracks=tracks, seeds=seeds,
        on_result=lambda result: write_json(json_file, result), **assignments(option or []),
    )  # fmt: skip


@bench_app.command("rig")
def bench_rig(
    data: Annotated[
        Path | None, typer.Option(help="Folder of SKAB (default: below $MECHTRACE_DATA).")
    ] = None,
    tasks: Annotated[str, typer.Option(help="What is learned: valve, all.")] = "valve,all",
    seeds: Annotated[int, typer.Option(help="Fits of each fold.", min=1)] = 3,
    rivals: Annotated[bool, typer.Option(help="Also score other methods.")] = True,
    gap: Annotated[
        float | None, typer.Option(help="Longest step (s) that continues a recording.")
    ] = None,
    workers: Workers = 1,
    option: FitSettings = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Faults of a water-pump rig in experiments never seen before.

    The file is written anew after every fit.

    \b
    Example:
      mechtrace bench rig --data data/skab --json results/rig-skab.json
    """
    from ..studies.rig import TASKS, rig_study
    from ..studies.rig_scores import markdown

    check_targets([json_file], files_below(data))
    result = rig_study(
        data, tasks=named(tasks) or TASKS, seeds=seeds, rivals=rivals, gap=gap, workers=workers,
        on_result=lambda result: write_json(json_file, result), **assignments(option or []),
    )  # fmt: skip
    logger.info(markdown(result["summary"]))
