"""`mechtrace fit`: from labelled recordings to a stored model."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._runtime.terminal import say
from ..errors import ConfigError
from .options import (
    READING,
    Experts,
    Json,
    Quiet,
    assignments,
    by_default,
    check_targets,
    typed_command,
    with_options,
    write_json,
)

if TYPE_CHECKING:
    from ..data.read import Reading
    from ..estimator import Trace

logger = logging.getLogger(__name__)


@with_options(reading=READING)
def fit(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA",
            help="Labelled recordings: files (.csv, .xlsx, .parquet, .npz, .zip), folders,"
            " patterns in quotes, videos or folders of images.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the trained model.")
    ] = None,
    *,
    reading: dict[str, Any],
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Resize pictures, as 64x64. [default: as they are]"),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Read settings from a TOML file.")] = None,
    latents: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto", help=by_default("latents", "Dimension of the latent state.")
        ),
    ] = None,
    lags: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help=by_default("lags", "Past steps that each transition depends on."),
        ),
    ] = None,
    lag_seconds: Annotated[
        float | None, typer.Option(help="The same as a time (in seconds for dates).")
    ] = None,
    experts: Annotated[
        Experts | None,
        typer.Option(help=by_default("experts", "Family of the transition models.")),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help=by_default("steps", "Training steps, unless stopped early.")),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Series per training step. [default: 40, on a GPU 320]"),
    ] = None,
    lr: Annotated[float | None, typer.Option(help=by_default("lr", "Learning rate."))] = None,
    hidden: Annotated[
        int | None, typer.Option(help=by_default("hidden", "Width of the hidden layers."))
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            help=by_default(
                "holdout", "Fraction of the series (or groups) of each regime to hold out."
            )
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help=by_default("seed", "Seed of the random number generators."))
    ] = None,
    device: Annotated[
        str | None, typer.Option(help=by_default("device", "Device: auto, cpu or cuda."))
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, as window=100. Repeatable; --write-config lists them all.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate time and memory; do not train.")
    ] = False,
    write_config: Annotated[
        Path | None, typer.Option(help="Write all settings to a TOML file; do not train.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint of a stopped run.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Replace the checkpoint of a stopped run.")
    ] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    log: Annotated[Path | None, typer.Option(help="Append progress as JSON lines.")] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Write TensorBoard logs to this folder.")
    ] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Learn one mechanism per regime from labelled recordings.

    Tables have one row per time step. The columns with time, recording, regime and group are
    detected by their names and cells, and listed; in doubt the command asks. Files without a
    column for the recording are one recording each; without a regime column, the folder of a file
    names its regime.

    Training writes checkpoints to OUT.ckpt; after Ctrl-C or a crash, the same command with
    --resume continues from there, with --restart it begins again.

    \b
    Examples:
      mechtrace fit runs.csv --out gait.mechtrace
      mechtrace fit runs.csv --regime gait --group-by subject --holdout 0.3 -o gait.mechtrace
      mechtrace fit 'walk/*.csv' 'run/*.csv' --out gait.mechtrace
      mechtrace fit runs/ --dry-run
      mechtrace fit films/ --size 64x64 --out film.mechtrace
      mechtrace fit runs.csv --write-config run.toml
      mechtrace fit runs.csv --config run.toml --out gait.mechtrace
    """
    from .._runtime.process import atomic_path
    from ..config import RunConfig
    from ..io.settings_file import read_toml
    from .inputs import read_labelled

    settings: dict[str, Any] = read_toml(config) if config else {}
    roles: dict[str, Any] = settings.pop("data", {})
    flags = {
        "latents": _size("latents", latents), "lags": _size("lags", lags),
        "experts": experts and experts.value, "steps": steps, "batch": batch, "lr": lr,
        "hidden": hidden, "holdout": holdout,
        "seed": seed, "device": device,
    }  # fmt: skip
    settings |= assignments(option or [])
    settings |= {name: value for name, value in flags.items() if value is not None}
    chosen = RunConfig.from_options(**settings)
    roles |= reading | ({"size": size} if size is not None else {})
    checkpoint = out and Path(f"{out}.ckpt")
    inputs = [*(data or []), *([config] if config else [])]
    check_targets([out, checkpoint, log, write_config, json_file], inputs)
    if not data and write_config is None:
        raise ConfigError("there is no data to learn from", fix="name a file: mechtrace fit FILE")
    if out is None and write_config is None and not dry_run:
        what = "there is no name for the trained model"
        raise ConfigError(what, fix="add one, as in --out model.mechtrace")
    if checkpoint is not None and write_config is None and not dry_run:
        from ..stage1.checkpoint_file import check_checkpoint

        check_checkpoint(checkpoint, resume=resume, restart=restart)
    found = read_labelled(data, roles) if data else None
    if found is not None and lag_seconds is not None:
        from ..data.resample import steps_in

        settings["lags"] = steps_in(found.panel, lag_seconds)
        chosen = RunConfig.from_options(**settings)
        logger.info(f"{lag_seconds:g} of time are {settings['lags']} lags")
    if write_config is not None:
        known = roles | {k: v for k, v in dict(found.roles if found else {}).items() if v}
        with atomic_path(write_config) as temporary:
            temporary.write_text(chosen.to_toml(known), encoding="utf-8")
        command = f"mechtrace fit DATA --config {write_config} --out FILE"
        logger.info(f"{write_config}: edit it, then {command}")
        write_json(json_file, chosen.options())
        return
    assert found is not None  # refused above
    if dry_run:
        from ..stage1.fit_cost import Plan

        plan = Plan.measure(found.panel, chosen)
        logger.info(str(plan))
        write_json(json_file, plan.to_dict())
        return
    assert out is not None  # refused above
    assert checkpoint is not None
    trace = _train(
        found, settings, out, checkpoint, progress=not quiet, resume=resume, restart=restart,
        checkpoint_seconds=checkpoint_seconds, log=log, tensorboard=tensorboard,
    )  # fmt: skip
    logger.info(f"{out}: held-out ELBO {trace.elbo_:.3f} nats per step")
    write_json(json_file, trace.facts_)


def _size(name: str, text: str | None) -> int | str | None:
    """Return the number that an option names, or auto."""
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        fix = "give a whole number, or auto"
        raise ConfigError(f"--{name} {text!r} is not a number", fix=fix) from None


def _train(
    reading: Reading, settings: dict[str, Any], out: Path, checkpoint: Path, *, resume: bool,
    **how: Any,
) -> Trace:  # fmt: skip
    """Fit and save; a stopped run leaves its checkpoint."""
    from ..estimator import Trace, load
    from ..stage1.trainer import Interrupted

    resume = resume and checkpoint.exists()
    if resume:
        done = load(checkpoint).record_.training.steps
        logger.info(f"{checkpoint}: goes on after step {done}")
    trace = Trace().set_params(**settings)
    try:
        trace.fit(reading.panel, checkpoint=checkpoint, resume=resume, **how)
    except Interrupted:
        done = trace.record_.training.steps
        say(
            f"mechtrace: stopped after {done} steps; the same command with --resume goes on"
            f" ({checkpoint}).",
            err=True,
        )
        raise typer.Exit(130) from None
    assert trace.record_.origin is not None  # a finished fit has one
    origin = replace(trace.record_.origin, command=typed_command())
    trace.record_ = replace(trace.record_, origin=origin)
    trace.save(out)
    checkpoint.unlink(missing_ok=True)
    return trace
