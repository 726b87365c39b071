"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import ConfigError, DataError, MechtraceError

app = typer.Typer(
    name="mechtrace",
    help="How much of each mechanism is at work, when, and how surely.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
bench_app = typer.Typer(
    help="Measure mechtrace on this machine.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(bench_app, name="bench")

Json = Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


class Experts(StrEnum):
    """Kinds of experts."""

    affine = "affine"
    nonparametric = "nonparametric"
    spline = "spline"
    maf = "maf"


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from . import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo-out"),
    seed: Seed = 0,
    steps: Annotated[int | None, typer.Option(help="Training steps (default: as fit).")] = None,
    quiet: Quiet = False,
) -> None:
    """Simulate, learn and compare with the truth; no data needed.

    Example: mechtrace demo --out demo-out
    """
    from .demo import run_demo

    run_demo(out, seed=seed, steps=steps, progress=not quiet, say=_sayer(quiet))


@app.command()
def simulate(
    out: Annotated[Path, typer.Option(help="File to write: .csv, .parquet or .npz.")],
    world: Annotated[str, typer.Option(help="Preset of the world.")] = "paper",
    series: Annotated[int, typer.Option(help="Recordings (of each regime).", min=1)] = 400,
    transition: Annotated[
        str | None, typer.Option(help="Unlabelled runs with this schedule instead of pure ones.")
    ] = None,
    active: Annotated[str, typer.Option(help="Regimes in the transition, as 0,2,4.")] = "",
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Any option of the world, as noise=0.2.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Also write latents, alpha, W(t) and means here (.npz).")
    ] = None,
    seed: Seed = 0,
    world_seed: Annotated[int, typer.Option(help="Seed of the world itself.")] = 0,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Simulate recordings of a world with known truth.

    Examples:
      mechtrace simulate --out runs.csv --series 100
      mechtrace simulate --out glide.csv --transition simple --active 0,2,4 --series 1
    """
    from . import worlds

    drawn = worlds.make(world, seed=world_seed, **_options(option or []))
    if transition is None:
        result = drawn.simulate(series, seed=seed)
    else:
        chosen = _numbers(active) if active else None
        result = drawn.transition(transition, series=series, active=chosen, seed=seed)
    _write_panel(result.panel, out)
    if truth is not None:
        worlds.write_truth(result, truth)
    say = _sayer(quiet)
    say(f"{out}: {result.panel!r}")
    _write_json(json_file, {"file": str(out), "world": world, "seed": seed, "series": series})


@app.command()
def fit(
    data: Annotated[Path, typer.Argument(help="Labelled recordings: .csv, .parquet or .npz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the trained model.")],
    time: Annotated[str | None, typer.Option(help="Column with the time.")] = None,
    series: Annotated[str | None, typer.Option(help="Column that names the recording.")] = None,
    regime: Annotated[str | None, typer.Option(help="Column with the regime.")] = None,
    missing: Annotated[
        str | None, typer.Option(help="Missing cells: error, gap or interpolate.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings from a TOML file.")] = None,
    latents: Annotated[int | None, typer.Option(help="Latent dimensions.")] = None,
    lags: Annotated[int | None, typer.Option(help="Steps of history an expert sees.")] = None,
    experts: Annotated[Experts | None, typer.Option(help="Kind of experts.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    batch: Annotated[int | None, typer.Option(help="Series per step.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of the networks.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    log: Annotated[Path | None, typer.Option(help="Append progress as JSON lines.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Learn one mechanism per regime from labelled recordings.

    While it runs, the state is kept beside the model as OUT.ckpt; after Ctrl-C or a crash the
    same command with --resume goes on from there.

    Example: mechtrace fit runs.csv --regime mode --out gait.mechtrace
    """
    from .columns import read_panel
    from .config import read_toml

    say = _sayer(quiet)
    settings: dict[str, Any] = read_toml(config) if config else {}
    flags = {
        "latents": latents, "lags": lags, "experts": experts and experts.value, "steps": steps,
        "batch": batch, "lr": lr, "hidden": hidden, "seed": seed, "device": device,
    }  # fmt: skip
    settings |= {name: value for name, value in flags.items() if value is not None}
    _check_target(out)
    panel, how = read_panel(data, missing=missing, time=time, series=series, regime=regime)
    say(how)
    checkpoint = out.with_name(out.name + ".ckpt")
    resume = resume and checkpoint.exists()
    if resume:
        from .estimator import load

        say(f"{checkpoint}: goes on after step {load(checkpoint).facts_['training']['steps']}")
    elif checkpoint.exists():
        say(f"{checkpoint}: a stopped run is left there; this new run replaces it")
    from .estimator import Trace
    from .fit import Interrupted

    trace = Trace().set_params(**settings)
    try:
        trace.fit(
            panel,
            progress=not quiet,
            checkpoint=checkpoint,
            resume=resume,
            checkpoint_seconds=checkpoint_seconds,
            log=log,
            tensorboard=tensorboard,
        )
    except Interrupted:
        done = trace.facts_["training"]["steps"]
        typer.echo(
            f"mechtrace: stopped after {done} steps; the same command with --resume goes on"
            f" ({checkpoint}).",
            err=True,
        )
        raise typer.Exit(130) from None
    trace.save(out)
    checkpoint.unlink(missing_ok=True)
    say(f"{out}: held-out ELBO {trace.elbo_:.3f} nats per step")
    _write_json(json_file, trace.facts_)


@app.command()
def recover(
    model: Annotated[Path, typer.Argument(help="A trained model.")],
    data: Annotated[Path, typer.Argument(help="New recordings: .csv, .parquet or .npz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write: .csv or .parquet.")],
    time: Annotated[str | None, typer.Option(help="Column with the time.")] = None,
    series: Annotated[str | None, typer.Option(help="Column that names the recording.")] = None,
    missing: Annotated[
        str | None, typer.Option(help="Missing cells: error, gap or interpolate.")
    ] = None,
    method: Annotated[str, typer.Option(help="state-space or algorithm1.")] = "state-space",
    causal: Annotated[bool, typer.Option("--causal", help="Use only the past.")] = False,
    pool: Annotated[bool, typer.Option("--pool", help="Trials of one schedule.")] = False,
    active: Annotated[str, typer.Option(help="Regimes that can occur, as walk,run.")] = "",
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.9,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report.")] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """How much of each mechanism is at work at each step of new recordings.

    Example: mechtrace recover gait.mechtrace new.csv --out alpha.csv --report alpha.html
    """
    from dataclasses import asdict

    from .columns import read_panel
    from .estimator import load

    say = _sayer(quiet)
    for target in (out, report):
        if target is not None:
            _check_target(target)
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(
            "the file type cannot be written", where=str(out), fix="use .csv, .parquet"
        )
    trace = load(model)
    panel, how = read_panel(
        data, missing=missing, channels=trace.channels_, time=time, series=series, regime=None
    )
    say(how)
    found = trace.recover(
        panel, method=method, causal=causal, pool=pool, level=level,
        active=active.split(",") if active else None,
    )  # fmt: skip
    paths = found if isinstance(found, list) else [found]
    _write_table(paths, out)
    for path in paths[:10]:
        say(str(path))
    if len(paths) > 10:
        say(f"... and {len(paths) - 10} more recordings")
    if report is not None:
        from .reports import report as write_report

        write_report(trace, paths, report)
        say(f"{report}")
    events = {path.name: [asdict(event) for event in path.events(minimum=2)] for path in paths}
    _write_json(json_file, {"file": str(out), "events": events})


@app.command()
def diagnose(
    model: Annotated[Path, typer.Argument(help="A trained model.")],
    data: Annotated[Path, typer.Argument(help="New recordings: .csv, .parquet or .npz.")],
    time: Annotated[str | None, typer.Option(help="Column with the time.")] = None,
    series: Annotated[str | None, typer.Option(help="Column that names the recording.")] = None,
    missing: Annotated[
        str | None, typer.Option(help="Missing cells: error, gap or interpolate.")
    ] = None,
    method: Annotated[str, typer.Option(help="state-space or algorithm1.")] = "state-space",
    pool: Annotated[bool, typer.Option("--pool", help="Trials of one schedule.")] = False,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Can the recovered curves be trusted? Findings, what they mean and what to do.

    Example: mechtrace diagnose gait.mechtrace new.csv
    """
    from .columns import read_panel
    from .estimator import load

    trace = load(model)
    panel, _ = read_panel(
        data, missing=missing, channels=trace.channels_, time=time, series=series, regime=None
    )
    found = trace.recover(panel, method=method, pool=pool)
    diagnoses = [trace.diagnose(p) for p in (found if isinstance(found, list) else [found])]
    for diagnosis in diagnoses:
        _sayer(quiet)(str(diagnosis))
    _write_json(json_file, {"diagnoses": [diagnosis.to_dict() for diagnosis in diagnoses]})


@app.command()
def info(
    file: Annotated[Path, typer.Argument(help="A stored model or a checkpoint.")],
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show what a stored model is: data, settings, training, versions.

    Example: mechtrace info gait.mechtrace
    """
    from .estimator import load

    trace = load(file)
    _sayer(quiet)(trace.card_.rstrip())
    _write_json(json_file, trace.facts_)


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
    from . import bench

    result = bench.bench_train(
        experts=experts.value, seconds=seconds, cpu_threads=threads, batch=batch, hidden=hidden,
        layers=layers, expert_layers=expert_layers, regimes=regimes, latents=latents,
        channels=channels, lags=lags, length=length, device=device, graph=graph,
        say=_sayer(quiet),
    )  # fmt: skip
    _write_json(json_file, result)


@bench_app.command("recover")
def bench_recover(
    series: Annotated[int, typer.Option(help="New recordings.")] = 4000,
    length: Annotated[int, typer.Option(help="Their length.")] = 50,
    regimes: Annotated[int, typer.Option(help="Regimes.")] = 5,
    method: Annotated[str, typer.Option(help="state-space or algorithm1.")] = "state-space",
    causal: Annotated[bool, typer.Option("--causal", help="Use only the past.")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Steps per second from observations to weights with intervals.

    Example: mechtrace bench recover --series 1 --length 100000
    """
    from . import bench

    result = bench.bench_recover(
        series=series, length=length, regimes=regimes, method=method, causal=causal,
        cpu_threads=threads, say=_sayer(quiet),
    )  # fmt: skip
    _write_json(json_file, result)


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
    from . import bench

    result = bench.bench_scale(_numbers(series), steps=steps, device=device, say=_sayer(quiet))
    _write_json(json_file, result)


@bench_app.command("recovery")
def bench_recovery(
    world: Annotated[str, typer.Option(help="Preset of the world.")] = "paper",
    regimes: Annotated[int, typer.Option(help="Regimes in all.")] = 5,
    active: Annotated[str, typer.Option(help="How many take part.")] = "3,5",
    series: Annotated[int, typer.Option(help="Training series per regime.")] = 2000,
    trials: Annotated[int, typer.Option(help="Transitions to pool.")] = 200,
    lengths: Annotated[str, typer.Option(help="Lengths of the transitions.")] = "50",
    seeds: Annotated[int, typer.Option(help="Fresh worlds.")] = 5,
    steps: Annotated[int | None, typer.Option(help="Training steps (default: as fit).")] = None,
    device: Device = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Quality of alpha(t): learned, oracle and algorithm 1, pooled and single, with coverage.

    Example: mechtrace bench recovery --world paper-positive --lengths 50,200
    """
    from .study import recovery_study

    settings: dict[str, Any] = {"device": device} | ({"steps": steps} if steps else {})
    result = recovery_study(
        world=world, regimes=regimes, active=_numbers(active), series=series, trials=trials,
        lengths=_numbers(lengths), seeds=seeds, say=_sayer(quiet), **settings,
    )  # fmt: skip
    _write_json(json_file, result)


@bench_app.command("latents")
def bench_latents(
    world: Annotated[str, typer.Option(help="Preset of the world.")] = "paper",
    series: Annotated[int, typer.Option(help="Series per regime.")] = 400,
    seeds: Annotated[int, typer.Option(help="Fresh worlds.")] = 5,
    steps: Annotated[int | None, typer.Option(help="Training steps (default: as fit).")] = None,
    device: Device = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """How well learned latents explain the true ones, over several worlds.

    Example: mechtrace bench latents --world laplace --seeds 3
    """
    from . import bench

    settings: dict[str, Any] = {"device": device} | ({"steps": steps} if steps else {})
    result = bench.bench_latents(
        world=world, series=series, seeds=seeds, say=_sayer(quiet), **settings
    )
    _write_json(json_file, result)


def main() -> None:
    """Run the command line; every error on purpose is one sentence and exit code 2."""
    try:
        app()
    except MechtraceError as error:
        typer.echo(f"mechtrace: {error}", err=True)
        sys.exit(2)


def _sayer(quiet: bool) -> Any:
    return (lambda text: None) if quiet else typer.echo


def _write_json(path: Path | None, result: dict[str, Any]) -> None:
    if path is None:
        return
    from .atomic import atomic_path

    with atomic_path(path) as temporary:
        text = json.dumps(result, indent=1, default=_plain)
        temporary.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """numpy numbers and times for JSON."""
    item = value.item() if hasattr(value, "item") else value
    return item if isinstance(item, (int, float)) else str(value)


def _write_panel(panel: Any, path: Path) -> None:
    writers = {".csv": "to_csv", ".parquet": "to_parquet", ".npz": "to_npz"}
    if path.suffix.lower() not in writers:
        raise DataError(
            "is not a file type that can be written",
            where=str(path),
            fix="use .csv, .parquet or .npz",
        )
    getattr(panel, writers[path.suffix.lower()])(path)


def _write_table(paths: list[Any], out: Path) -> None:
    import pandas as pd

    from .atomic import atomic_path

    frames = [path.to_frame().assign(series=path.name) for path in paths]
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(0, "series", frame.pop("series"))
    with atomic_path(out) as temporary:
        if out.suffix.lower() == ".csv":
            frame.to_csv(temporary, index=False)
        else:
            frame.to_parquet(temporary)


def _check_target(path: Path) -> None:
    """Refuse a bad target before hours of work, not after."""
    if path.is_dir() or not path.parent.is_dir():
        raise DataError(
            "the model cannot be written there",
            where=str(path),
            fix="choose a file in an existing folder",
        )


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a list of whole numbers", fix="write 0,2,4") from error


def _options(pairs: list[str]) -> dict[str, Any]:
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


if __name__ == "__main__":
    main()
