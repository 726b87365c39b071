"""Tables of docs/results.md about speed and memory."""

from __future__ import annotations

from project_files import load, section

NONPARAMETRIC = "--experts nonparametric --expert-layers 4"
#: Training benchmarks, with the options of the command behind each.
TRAINING = {
    "bench-train-affine-cpu": "",
    "bench-train-nonparametric-cpu": f" {NONPARAMETRIC}",
    "bench-train-affine-h200": " --device cuda",
    "bench-train-nonparametric-h200": f" --device cuda {NONPARAMETRIC}",
}


def training() -> str:
    """Training speed."""
    rows = [
        (
            r["configuration"]["experts"], r["machine"], f"{r['transitions_per_second']:,.0f}",
            f"{r['peak_memory_mb']:,.0f} MB", r["series_per_step"],
            f"`mechtrace bench train{options}`",
        )
        for r, options in ((load(name), options) for name, options in TRAINING.items())
    ]  # fmt: skip
    return section(
        "## Training speed",
        "d = 8, 16 channels, 2 lags, hidden 128, 5 regimes, series of 50 steps; complete steps"
        " (data, forward, backward, update).",
        ("experts", "machine", "transitions/s", "step memory", "series per step", "command"),
        rows,
    )


def recovery() -> str:
    """Steps per second of stage 2."""
    many, one = load("bench-recover-cpu"), load("bench-recover-single-cpu")
    measured = [*((r, "") for r in (many, one))]
    measured += [(r, f"{r['peak_memory_mb'] / 1000:.1f} GB") for r in many["scaling"]]
    rows = [
        (
            f"{r['series']:,}", f"{r['length']:,}", r.get("regimes", many["regimes"]),
            f"{r['steps_per_second']:,.0f}", memory,
        )
        for r, memory in measured
    ]  # fmt: skip
    parts = many["microseconds_per_step"]
    spent = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
    return section(
        "## Speed of recovery",
        "From observations to weights with intervals, default method, one thread, best of"
        f" {many['repeats']} passes: `mechtrace bench recover`, with `--series 1 --length 20000`"
        " for the second row. Below it single passes in fresh processes (`--lengths"
        " 100,10000,1000000 --counts 10,1000,20000`): cost is linear once a few milliseconds of"
        " set-up no longer count; peak memory contains about 0.6 GB of libraries and model.",
        ("series", "length", "regimes", "steps/s", "peak memory"),
        rows,
        f"Microseconds per step of the first row: {spent}.",
    )


def scale() -> str:
    """Cost against the number of series."""
    r = load("bench-scale-cpu")
    rows = [
        (
            f"{row['series_per_regime']:,}", f"{row['transitions_per_second']:,.0f}",
            f"{row['peak_memory_mb']:,.0f} MB", f"{row['prepare_seconds']:.1f} s",
        )
        for row in r["rows"]
    ]  # fmt: skip
    return section(
        "## Scale",
        f"Trained from a memory-mapped file, {r['steps']} steps, {r['machine']}:"
        " `mechtrace bench scale`.",
        ("series per regime", "transitions/s", "peak memory of the process", "to prepare"),
        rows,
    )
