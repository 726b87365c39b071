"""`mechtrace fit`: from labelled recordings to a stored model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cli_options import (
    Detrend,
    Experts,
    Gap,
    GroupColumn,
    Json,
    Missing,
    Quiet,
    Rate,
    RegimeColumn,
    SeriesColumn,
    TimeColumn,
    check_targets,
    named,
    options,
    sayer,
    write_json,
)
from .errors import ConfigError, DataError

if TYPE_CHECKING:
    from .estimator import Trace
    from .inputs import Reading
    from .series import Panel


def fit(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA",
            help="Labelled recordings: files (.csv, .tsv, .parquet, .npz), folders, patterns in"
            " quotes, videos or folders of images.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the trained model.")
    ] = None,
    time: TimeColumn = None,
    series: SeriesColumn = None,
    regime: RegimeColumn = None,
    group: GroupColumn = None,
    channels: Annotated[
        str, typer.Option(metavar="COLUMNS", help="Columns that were measured, as x,y,z.")
    ] = "",
    missing: Missing = None,
    gap: Gap = None,
    rate: Rate = None,
    detrend: Detrend = None,
    size: Annotated[
        str | None, typer.Option(metavar="HxW", help="Resize pictures, as 64x64.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings from a TOML file.")] = None,
    latents: Annotated[int | None, typer.Option(help="Latent dimensions.")] = None,
    lags: Annotated[int | None, typer.Option(help="Steps of history an expert sees.")] = None,
    lag_seconds: Annotated[
        float | None, typer.Option(help="The same in time (seconds for dates).")
    ] = None,
    experts: Annotated[Experts | None, typer.Option(help="Kind of experts.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    batch: Annotated[int | None, typer.Option(help="Series per step.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of the networks.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, as window=100."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take, and train nothing.")
    ] = False,
    write_config: Annotated[
        Path | None, typer.Option(help="Write all settings as TOML, and train nothing.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    log: Annotated[Path | None, typer.Option(help="Append progress as JSON lines.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Learn one mechanism per regime from labelled recordings.

    Tables have one row per time step; columns for time, recording and regime are guessed from
    their names, and what was guessed is said. Files without a column for the recording are one
    recording each; without a regime column, the folder of a file names its regime.

    While it runs, the state is kept beside the model as OUT.ckpt; after Ctrl-C or a crash the
    same command with --resume goes on from there.

    \b
    Examples:
      mechtrace fit runs.csv --out gait.mechtrace
      mechtrace fit runs.csv --regime gait --series subject,trial --group subject -o gait.mechtrace
      mechtrace fit 'walk/*.csv' 'run/*.csv' --out gait.mechtrace
      mechtrace fit runs/ --dry-run
      mechtrace fit films/ --size 64x64 --out film.mechtrace
      mechtrace fit runs.csv --write-config run.toml
      mechtrace fit runs.csv --config run.toml --out gait.mechtrace
    """
    from .config import RunConfig, read_toml

    say = sayer(quiet)
    settings: dict[str, Any] = read_toml(config) if config else {}
    roles: dict[str, Any] = settings.pop("data", {})
    flags = {
        "latents": latents, "lags": lags, "experts": experts and experts.value, "steps": steps,
        "batch": batch, "lr": lr, "hidden": hidden, "seed": seed, "device": device,
    }  # fmt: skip
    settings |= options(option or [])
    settings |= {name: value for name, value in flags.items() if value is not None}
    chosen = RunConfig.from_options(**settings)
    columns = {"time": time, "series": series, "regime": regime, "channels": named(channels),
               "missing": missing, "gap": gap, "size": size, "group": group}  # fmt: skip
    roles |= {name: value for name, value in columns.items() if value is not None}
    preparation: dict[str, Any] = {"rate": rate, "detrend": detrend}
    check_targets([out, log, write_config, json_file], data or [])
    if not data and write_config is None:
        raise ConfigError("there is no data to learn from", fix="name a file: mechtrace fit FILE")
    if out is None and write_config is None and not dry_run:
        what = "there is no name for the trained model"
        raise ConfigError(what, fix="add one, as in --out model.mechtrace")
    reading = read_labelled(data, roles) if data else None
    if reading is not None:
        say(reading.how)
        reading = reading._replace(panel=prepared(reading.panel, **preparation))
        if lag_seconds is not None:
            from .resample import steps_in

            settings["lags"] = steps_in(reading.panel, lag_seconds)
            chosen = RunConfig.from_options(**settings)
            say(f"{lag_seconds:g} of time are {settings['lags']} lags")
    if write_config is not None:
        known = roles | {k: v for k, v in dict(reading.roles if reading else {}).items() if v}
        _write_config(chosen.to_toml(known), write_config)
        say(f"{write_config}: edit it, then mechtrace fit DATA --config {write_config} --out FILE")
        write_json(json_file, chosen.options())
        return
    assert reading is not None  # refused above
    if dry_run:
        from .plan import Plan

        plan = Plan.measure(reading.panel, chosen)
        say(str(plan))
        write_json(json_file, plan.to_dict())
        return
    assert out is not None  # refused above
    trace = _train(
        reading, settings, out, say=say, progress=not quiet, resume=resume,
        checkpoint_seconds=checkpoint_seconds, log=log, tensorboard=tensorboard,
        preparation=preparation,
    )  # fmt: skip
    say(f"{out}: held-out ELBO {trace.elbo_:.3f} nats per step")
    write_json(json_file, trace.facts_)


def read_labelled(data: list[Path], roles: dict[str, Any]) -> Reading:
    """The recordings, which must have labels."""
    from .inputs import read_inputs

    reading = read_inputs(data, **roles)
    if not reading.panel.labelled:
        text = [name for name, why in reading.left_out.items() if why == "text"]
        fix = "name the column that holds it: --regime COLUMN"
        if text:
            fix += f" (columns with text here: {', '.join(text[:8])})"
        what = "no column is known to hold the regime"
        if reading.panel.is_image:
            what, fix = "the recordings have no regime", "put those of each regime into a folder"
        raise DataError(what, where=reading.panel.source, fix=fix)
    return reading


def prepared(panel: Panel, rate: float | None = None, detrend: Any = None) -> Panel:
    """The panel at another rate and without a trend, where that was asked for."""
    if rate is not None:
        panel = panel.resampled(rate)
    return panel if detrend is None else panel.detrended(detrend)


def _train(
    reading: Reading, settings: dict[str, Any], out: Path, *, say: Any, resume: bool,
    preparation: dict[str, Any], **how: Any,
) -> Trace:  # fmt: skip
    """Fit and save; a stopped run leaves its checkpoint."""
    from .estimator import Trace, load
    from .fit import Interrupted

    checkpoint = out.with_name(out.name + ".ckpt")
    resume = resume and checkpoint.exists()
    if resume:
        say(f"{checkpoint}: goes on after step {load(checkpoint).facts_['training']['steps']}")
    elif checkpoint.exists():
        say(f"{checkpoint}: a stopped run is left there; this new run replaces it")
    trace = Trace().set_params(**settings)
    try:
        trace.fit(reading.panel, checkpoint=checkpoint, resume=resume, **how)
    except Interrupted:
        done = trace.facts_["training"]["steps"]
        typer.echo(
            f"mechtrace: stopped after {done} steps; the same command with --resume goes on"
            f" ({checkpoint}).",
            err=True,
        )
        raise typer.Exit(130) from None
    if any(value is not None for value in preparation.values()):
        trace.facts_["preparation"] = preparation  # new recordings are treated alike
    trace.save(out)
    checkpoint.unlink(missing_ok=True)
    return trace


def _write_config(text: str, path: Path) -> None:
    from .atomic import atomic_path

    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
