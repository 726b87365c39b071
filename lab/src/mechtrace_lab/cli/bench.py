"""`mechtrace bench`: benchmarks and studies in simulated worlds."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from mechtrace.cli import (
    Device,
    Experts,
    FitSettings,
    Json,
    Preset,
    Quiet,
    Steps,
    assignments,
    check_targets,
    named,
    numbers,
    write_json,
)

from .options import First, Worlds, files_below, trained_with

logger = logging.getLogger(__name__)

bench_app = typer.Typer(
    help="Measure mechtrace on this machine.\n\n\b\n"
    "Example:\n  mechtrace bench train --json t.json",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bench_app.command("train")
def bench_train(
    experts: Annotated[Experts, typer.Option(help="Kind of experts.")] = Experts.affine,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 10.0,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    batch: Annotated[int | None, typer.Option(help="Series per step.")] = None,
    hidden: Annotated[int, typer.Option(help="Width of the networks.")] = 128,
    layers: Annotated[int, typer.Option(help="Weight layers of encoder and decoder.")] = 2,
    expert_layers: Annotated[int | None, typer.Option(help="Weight layers of experts.")] = None,
    regimes: int = 5,
    latents: int = 8,
    channels: int = 16,
    lags: int = 2,
    length: int = 50,
    device: Device = "cpu",
    graph: Annotated[bool, typer.Option(help="Captured graph on CUDA.")] = True,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Transitions per second of complete training steps.

    Example: mechtrace bench train --experts nonparametric --json train.json
    """
    from .. import benchmarks as bench

    result = bench.bench_train(
        experts=experts.value, seconds=seconds, cpu_threads=threads, batch=batch, hidden=hidden,
        layers=layers, expert_layers=expert_layers, regimes=regimes, latents=latents,
        channels=channels, lags=lags, length=length, device=device, graph=graph,
    )  # fmt: skip
    write_json(json_file, result)


@bench_app.command("recover")
def bench_recover(
    series: Annotated[int, typer.Option(help="New recordings.")] = 4000,
    length: Annotated[int, typer.Option(help="Their length.")] = 50,
    regimes: Annotated[int, typer.Option(help="Regimes.")] = 5,
    method: Annotated[str, typer.Option(help="state-space or algorithm1.")] = "state-space",
    causal: Annotated[bool, typer.Option("--causal", help="Use only the past.")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    repeats: Annotated[int, typer.Option(help="The best of so many.", min=1)] = 5,
    lengths: Annotated[str, typer.Option(help="Also one series of each length.")] = "",
    counts: Annotated[str, typer.Option(help="Also so many series of --length.")] = "",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Steps per second from observations to weights with intervals, and where the time goes.

    Example: mechtrace bench recover --lengths 100,10000,1000000 --counts 10,1000,20000
    """
    from .. import benchmarks as bench

    shapes = [(1, steps) for steps in numbers(lengths)] if lengths else []
    shapes += [(count, length) for count in numbers(counts)] if counts else []
    result = bench.bench_recover(
        series=series, length=length, regimes=regimes, method=method, causal=causal,
        cpu_threads=threads, repeats=repeats, shapes=shapes,
    )  # fmt: skip
    write_json(json_file, result)


@bench_app.command("scale")
def bench_scale(
    series: Annotated[str, typer.Option(help="Series per regime.")] = "400,4000,40000",
    steps: Annotated[int, typer.Option(help="Training steps for each.")] = 300,
    device: Device = "cpu",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Cost per transition and peak memory against the size of the data, trained from disk.

    Example: mechtrace bench scale --series 400,40000
    """
    from .. import benchmarks as bench

    result = bench.bench_scale(numbers(series), steps=steps, device=device)
    write_json(json_file, result)


@bench_app.command("memory")
def bench_memory(
    rows: Annotated[int, typer.Option(help="Rows in all.", min=100)] = 1_000_000,
    length: Annotated[
        int | None, typer.Option(help="Rows of each recording (default: all in one).", min=100)
    ] = None,
    kind: Annotated[str, typer.Option(help="File that is read: .npz, .csv, .parquet.")] = ".npz",
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 2,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Peak memory of reading, recovering, the table, the diagnosis and the report.

    Example: mechtrace bench memory --rows 5000000 --length 1000
    """
    from ..memory_benchmark import bench_memory as measured

    write_json(json_file, measured(rows, length, kind=kind, cpu_threads=threads))


@bench_app.command("recovery")
def bench_recovery(
    world: Preset = "paper",
    regimes: Annotated[int, typer.Option(help="Regimes in all.")] = 5,
    active: Annotated[str, typer.Option(help="How many take part.")] = "3,5",
    series: Annotated[int, typer.Option(help="Training series per regime.")] = 2000,
    trials: Annotated[int, typer.Option(help="Transitions to pool.")] = 200,
    lengths: Annotated[str, typer.Option(help="Lengths of the transitions.")] = "50",
    seeds: Worlds = 5,
    steps: Steps = None,
    device: Device = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Quality of alpha(t): learned, oracle and algorithm 1, pooled and single, with coverage.

    Example: mechtrace bench recovery --world paper-positive --lengths 50,200
    """
    from ..studies.recovery import recovery_study

    result = recovery_study(
        world=world, regimes=regimes, active=numbers(active), series=series, trials=trials,
        lengths=numbers(lengths), seeds=seeds, **trained_with(device, steps),
    )  # fmt: skip
    write_json(json_file, result)


@bench_app.command("latents")
def bench_latents(
    world: Preset = "paper",
    series: Annotated[int, typer.Option(help="Series per regime.")] = 400,
    seeds: Worlds = 5,
    steps: Steps = None,
    device: Device = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """How well learned latents explain the true ones, over several worlds.

    Example: mechtrace bench latents --world laplace --seeds 3
    """
    from .. import benchmarks as bench

    result = bench.bench_latents(
        world=world, series=series, seeds=seeds, **trained_with(device, steps)
    )
    write_json(json_file, result)


@bench_app.command("align")
def bench_align(
    world: Preset = "paper",
    regimes: Annotated[int, typer.Option(help="Regimes of the world.")] = 5,
    series: Annotated[int, typer.Option(help="Recordings of each regime.")] = 2000,
    seeds: Worlds = 5,
    workers: Annotated[int, typer.Option(help="Processes that share the worlds.", min=1)] = 1,
    steps: Steps = None,
    device: Device = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Axis alignment: MCC, verdicts, matrices and changed edges against the truth.

    Example: mechtrace bench align --world laplace --series 400
    """
    from ..studies.alignment import alignment_study

    alignment_study(
        world=world, regimes=regimes, series=series, seeds=seeds, workers=workers,
        on_result=lambda result: write_json(json_file, result),
        **trained_with(device, steps),
    )  # fmt: skip


@bench_app.command("convexity")
def bench_convexity(
    world: Preset = "paper",
    regimes: Annotated[int, typer.Option(help="Regimes.")] = 3,
    seeds: Worlds = 3,
    first: First = 0,
    series: Annotated[int, typer.Option(help="Training series per regime.")] = 400,
    valid: Annotated[int, typer.Option(help="Valid recordings per world.")] = 510,
    broken: Annotated[int, typer.Option(help="Recordings with the emergent edge.")] = 150,
    steps: Steps = None,
    device: Device = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Size and power of the convexity test, beside the paper's, on valid and broken transitions.

    Example: mechtrace bench convexity --seeds 1 --valid 90 --broken 30
    """
    from ..studies.convexity import convexity_study

    result = convexity_study(
        world=world, regimes=regimes, seeds=seeds, first=first, series=series, valid=valid,
        broken=broken, **trained_with(device, steps),
    )  # fmt: skip
    write_json(json_file, result)


@bench_app.command("theory")
def bench_theory(
    world: Preset = "paper-positive",
    regimes: Annotated[int, typer.Option(help="Regimes.")] = 3,
    seeds: Worlds = 3,
    series: Annotated[int, typer.Option(help="Recordings of each kind.")] = 200,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Do errors respect Theorems 2 and 3? Noise, edge strength, length and shape; true latents.

    Example: mechtrace bench theory --seeds 1
    """
    from ..studies.theory import theory_study

    result = theory_study(world=world, regimes=regimes, seeds=seeds, series=series)
    write_json(json_file, result)


@bench_app.command("scaling")
def bench_scaling(
    world: Preset = "paper",
    regimes: Annotated[int, typer.Option(help="Regimes in all.")] = 10,
    active: Annotated[str, typer.Option(help="How many take part.")] = "2,3,4,5,6,7,8,9,10",
    seeds: Worlds = 5,
    trials: Annotated[int, typer.Option(help="Transitions that share a schedule.")] = 200,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """The paper's scaling table: Algorithm 1 with true latents against the number of regimes.

    Example: mechtrace bench scaling --seeds 1 --active 6,7
    """
    from ..studies.scaling import scaling_study

    result = scaling_study(
        world=world, regimes=regimes, active=numbers(active), seeds=seeds, trials=trials,
    )  # fmt: skip
    write_json(json_file, result)


@bench_app.command("homes")
def bench_own_benchmarks(
    methods: Annotated[str, typer.Option(help="Which, as tdrl,leap (default: all).")] = "",
    seeds: Worlds = 3,
    first: First = 0,
    share: Annotated[float, typer.Option(help="Share of the usual training.")] = 1.0,
    workers: Annotated[int, typer.Option(help="How many learn at once.", min=1)] = 1,
    device: Device = "auto",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder that keeps what is computed.")
    ] = Path("results/homes"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what is kept.")] = False,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train other methods on their authors' own benchmarks, to check our implementations.

    Each learns in a process of its own; the same command goes on where it was stopped. The exit
    code is 1 if one failed.

    Example: mechtrace bench homes --methods ivae,pcl --seeds 1
    """
    from ..baselines.own_benchmarks import OWN_BENCHMARKS, own_benchmark_study

    check_targets([json_file])
    rows = own_benchmark_study(
        [name.strip() for name in methods.split(",")] if methods else list(OWN_BENCHMARKS), out,
        seeds=seeds, first=first, share=share, workers=workers, device=device, fresh=fresh,
        live=not quiet,
    )  # fmt: skip
    write_json(json_file, {"rows": rows})
    if any(row["status"] == "failed" for row in rows):
        raise typer.Exit(1)


@bench_app.command("zoo")
def bench_zoo(
    systems: Annotated[str, typer.Option(help="Which, as tanks,motor (default: all).")] = "",
    seeds: Worlds = 5,
    first: First = 0,
    series: Annotated[int, typer.Option(help="Recordings of each regime.", min=2)] = 40,
    trials: Annotated[int, typer.Option(help="New recordings of each kind.", min=2)] = 12,
    length: Annotated[int, typer.Option(help="Rows of a recording.", min=20)] = 300,
    rivals: Annotated[bool, typer.Option(help="Also score other methods.")] = True,
    workers: Annotated[int, typer.Option(help="Fits that run at once.", min=1)] = 1,
    option: FitSettings = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Accuracy, coverage, verdicts and flags on the systems of the zoo, by default settings.

    The file is written anew after every fit.

    \b
    Example:
      mechtrace bench zoo --systems tanks,motor --seeds 2 --json zoo.json
    """
    from mechtrace.worlds.zoo import SYSTEMS

    from ..studies.zoo import zoo_study
    from ..studies.zoo_summary import markdown

    check_targets([json_file])
    result = zoo_study(
        systems=named(systems) or list(SYSTEMS), seeds=seeds, first=first, series=series,
        trials=trials, length=length, rivals=rivals, workers=workers,
        on_result=lambda result: write_json(json_file, result), **assignments(option or []),
    )  # fmt: skip
    logger.info(markdown(result["summary"]))


@bench_app.command("sensors")
def bench_sensors(
    data: Annotated[
        Path | None, typer.Option(help="Folder with skab and cmu_mocap, as far as present.")
    ] = None,
    systems: Annotated[str, typer.Option(help="Which, as tanks,motor (default: all).")] = "",
    seeds: Worlds = 1,
    first: First = 800,
    fits: Annotated[
        str, typer.Option(help="Systems to fit, to recover without each sensor.")
    ] = "",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Broken sensors named, with faults injected, and what remains without each.

    \b
    Example:
      mechtrace bench sensors --data data --fits motor --json sensors.json
    """
    from mechtrace.worlds.zoo import SYSTEMS

    from ..studies.sensors import markdown, sensor_study

    check_targets([json_file], files_below(data))
    result = sensor_study(
        data, systems=named(systems) or list(SYSTEMS), seeds=seeds, first=first,
        fits=named(fits) or (), on_result=lambda result: write_json(json_file, result),
    )  # fmt: skip
    logger.info(markdown(result))
