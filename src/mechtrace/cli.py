"""The command line: parse, call, print."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_bench import bench_app
from .cli_options import (
    Experts,
    Json,
    Missing,
    Preset,
    Quiet,
    Seed,
    SeriesColumn,
    Steps,
    TimeColumn,
    check_table,
    check_target,
    named,
    numbers,
    options,
    sayer,
    write_edges,
    write_json,
    write_panel,
    write_table,
)
from .errors import MechtraceError

app = typer.Typer(
    name="mechtrace",
    help="How much of each mechanism is at work, when, and how surely.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(bench_app, name="bench")


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
    steps: Steps = None,
    quiet: Quiet = False,
) -> None:
    """Simulate, learn and compare with the truth; no data needed.

    Example: mechtrace demo --out demo-out
    """
    from .demo import run_demo

    run_demo(out, seed=seed, steps=steps, progress=not quiet, say=sayer(quiet))


@app.command()
def simulate(
    out: Annotated[Path, typer.Option(help="File to write: .csv, .parquet or .npz.")],
    world: Preset = "paper",
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

    drawn = worlds.make(world, seed=world_seed, **options(option or []))
    if transition is None:
        result = drawn.simulate(series, seed=seed)
    else:
        chosen = numbers(active) if active else None
        result = drawn.transition(transition, series=series, active=chosen, seed=seed)
    write_panel(result.panel, out)
    if truth is not None:
        worlds.write_truth(result, truth)
    say = sayer(quiet)
    say(f"{out}: {result.panel!r}")
    write_json(json_file, {"file": str(out), "world": world, "seed": seed, "series": series})


@app.command()
def fit(
    data: Annotated[Path, typer.Argument(help="Labelled recordings: .csv, .parquet or .npz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the trained model.")],
    time: TimeColumn = None,
    series: SeriesColumn = None,
    regime: Annotated[str | None, typer.Option(help="Column with the regime.")] = None,
    missing: Missing = None,
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

    say = sayer(quiet)
    settings: dict[str, Any] = read_toml(config) if config else {}
    flags = {
        "latents": latents, "lags": lags, "experts": experts and experts.value, "steps": steps,
        "batch": batch, "lr": lr, "hidden": hidden, "seed": seed, "device": device,
    }  # fmt: skip
    settings |= {name: value for name, value in flags.items() if value is not None}
    check_target(out)
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
    write_json(json_file, trace.facts_)


@app.command()
def recover(
    model: Annotated[Path, typer.Argument(help="A trained model.")],
    data: Annotated[Path, typer.Argument(help="New recordings: .csv, .parquet or .npz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write: .csv or .parquet.")],
    time: TimeColumn = None,
    series: SeriesColumn = None,
    missing: Missing = None,
    method: Annotated[str, typer.Option(help="state-space or algorithm1.")] = "state-space",
    causal: Annotated[bool, typer.Option("--causal", help="Use only the past.")] = False,
    pool: Annotated[bool, typer.Option("--pool", help="Trials of one schedule.")] = False,
    active: Annotated[
        str, typer.Option(help="Regimes that can occur, as walk,run; auto finds them.")
    ] = "",
    blocks: Annotated[
        str, typer.Option(help="Evidence to use, as static or conditional(2),moments(16).")
    ] = "",
    known: Annotated[
        list[str] | None, typer.Option(help="FROM:TO=REGIME: known, to remove an offset.")
    ] = None,
    bias: Annotated[bool, typer.Option("--bias", help="Look for an offset without that.")] = False,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.9,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report.")] = None,
    edges: Annotated[Path | None, typer.Option(help="Also write the edges of W(t).")] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """How much of each mechanism is at work at each step of new recordings.

    Example: mechtrace recover gait.mechtrace new.csv --out alpha.csv --report alpha.html
    """
    from dataclasses import asdict

    from .curves import parse_known

    say = sayer(quiet)
    for target in (out, report, edges):
        if target is not None:
            check_target(target)
    for table in (out, edges):
        if table is not None:
            check_table(table)
    if report is not None:
        from .reports import check_available

        check_available()
    trace, panel, how = _model_and_data(model, data, missing, time, series)
    say(how)
    paths = _all_paths(
        trace, panel, method=method, causal=causal, pool=pool, level=level,
        active="auto" if active == "auto" else named(active), blocks=named(blocks), bias=bias,
        known=[parse_known(text) for text in known or []],
    )  # fmt: skip
    write_table(paths, out)
    if edges is not None:
        write_edges(trace.mechanisms(panel), paths, edges)
    for path in paths[:10]:
        say(str(path))
    if len(paths) > 10:
        say(f"... and {len(paths) - 10} more recordings")
    if report is not None:
        from .reports import report as write_report

        command = shlex.join(["mechtrace", *sys.argv[1:]])
        write_report(trace, paths, report, panel=panel, command=command)
        say(f"{report}")
    events = {path.name: [asdict(event) for event in path.events(minimum=2)] for path in paths}
    write_json(json_file, {"file": str(out), "events": events})


@app.command()
def diagnose(
    model: Annotated[Path, typer.Argument(help="A trained model.")],
    data: Annotated[Path, typer.Argument(help="New recordings: .csv, .parquet or .npz.")],
    time: TimeColumn = None,
    series: SeriesColumn = None,
    missing: Missing = None,
    method: Annotated[str, typer.Option(help="state-space or algorithm1.")] = "state-space",
    pool: Annotated[bool, typer.Option("--pool", help="Trials of one schedule.")] = False,
    active: Annotated[str, typer.Option(help="Regimes that can occur, as walk,run.")] = "",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Can the recovered curves be trusted? Findings, what they mean and what to do.

    Example: mechtrace diagnose gait.mechtrace new.csv
    """
    say = sayer(quiet)
    trace, panel, _ = _model_and_data(model, data, missing, time, series)
    paths = _all_paths(
        trace, panel, method=method, pool=pool, active=active.split(",") if active else None
    )
    diagnoses = [trace.diagnose(path) for path in paths]
    for diagnosis in diagnoses[:10]:
        say(str(diagnosis))
    if len(diagnoses) > 1:
        say(_tally([diagnosis.verdict for diagnosis in diagnoses]))
    write_json(json_file, {"diagnoses": [diagnosis.to_dict() for diagnosis in diagnoses]})


@app.command()
def calibrate(
    table: Annotated[Path, typer.Argument(help="A table written by recover.")],
    known: Annotated[list[str], typer.Option(help="FROM:TO=REGIME, where it is known.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write: .csv or .parquet.")],
    how: Annotated[str, typer.Option(help="auto, two-point or matrix.")] = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Correct the scale of recovered curves where the regime is known for some of the time.

    One correction serves the whole table. SERIES/FROM:TO=REGIME speaks of one recording,
    FROM..TO of dates, and walk:0.5,run:0.5 in place of a regime of a known mixture.

    Example: mechtrace calibrate alpha.csv --known 0:10=walk --known 90:99=run --out better.csv
    """
    from .curves import parse_known, read_curves
    from .recover.known import calibrated

    check_target(out)
    check_table(out)
    paths = calibrated(read_curves(table), [parse_known(text) for text in known], how=how)
    write_table(paths, out)
    used = paths[0].calibration
    sayer(quiet)(f"{out}: {len(paths)} recordings, corrected by {used} calibration")
    write_json(json_file, {"file": str(out), "how": used, "known": known})


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
    sayer(quiet)(trace.card_.rstrip())
    write_json(json_file, trace.facts_)


def _model_and_data(
    model: Path, data: Path, missing: str | None, time: str | None, series: str | None
) -> tuple[Any, Any, str]:
    """A stored model, new recordings of its channels, and how their columns were read."""
    from .columns import read_panel
    from .estimator import load

    trace = load(model)
    panel, how = read_panel(
        data, missing=missing, channels=trace.channels_, time=time, series=series, regime=None
    )
    return trace, panel, how


def _tally(verdicts: list[str]) -> str:
    """How many recordings got which verdict."""
    counts = [f"{verdicts.count(v)} {v}" for v in ("trust", "caution", "do not trust")]
    return f"{len(verdicts)} recordings: {', '.join(counts)}"


def _all_paths(trace: Any, panel: Any, **request: Any) -> list[Any]:
    found = trace.recover(panel, **request)
    return found if isinstance(found, list) else [found]


def main() -> None:
    """Run the command line; every error on purpose is one sentence and exit code 2."""
    try:
        app()
    except MechtraceError as error:
        typer.echo(f"mechtrace: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
