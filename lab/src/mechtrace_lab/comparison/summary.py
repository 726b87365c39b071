"""Summary of a comparison: means, a text table and result files."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mechtrace._runtime import atomic_path
from mechtrace.io import escape_formula

from ..jobs import FAILED, FINISHED, SKIPPED, Row
from .cells import ORACLE

if TYPE_CHECKING:
    import pandas as pd

    from mechtrace.data import Panel

NA = "NA"
#: Our method, and the difference of mean absolute errors that does not matter.
OURS, CLOSE = "mechtrace", 0.01
#: Columns of the table: heading, figure, which selection, decimals.
COSTS = (("seconds", "seconds", "", 1), ("memory MB", "memory_mb", "", 0))
WORLD_COLUMNS = (
    ("pooled", "pooled", "figures", 3),
    ("single", "single", "figures", 3),
    ("MCC", "mcc", "figures", 3),
    ("MCC oracle-selected", "mcc", "oracle_selected", 3),
    *COSTS,
)
DATA_COLUMNS = (
    ("accuracy", "accuracy", "figures", 3),
    ("right weight", "right_weight", "figures", 3),
    ("log loss", "log_loss", "figures", 3),
    ("switch corr", "switch", "figures", 3),
    ("midpoint rows", "midpoint_error", "figures", 1),
    *COSTS,
)
TRUTH_COLUMNS = (
    ("pooled", "pooled", "figures", 3),
    ("single", "single", "figures", 3),
    ("MAE", "single_mae", "figures", 3),
)
SPLICED = (
    "Switches are spliced from held-out recordings: they are instant, which favours methods that"
    " assume instant switches over those that expect gradual ones."
)


def summarise(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Mean, standard deviation and number of every figure for each method, the best first."""
    out = []
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name]
        done = [row for row in mine if row["status"] == FINISHED]
        one: dict[str, Any] = {"method": name, "cells": len(mine), "finished": len(done)}
        for part in ("figures", "oracle_selected"):
            names = dict.fromkeys(key for row in done for key in row[part])
            one[part] = {key: _spread([row[part].get(key) for row in done]) for key in names}
        for cost in ("seconds", "answer_seconds", "memory_mb", "gpu_memory_mb"):
            one[cost] = _spread([row[cost] for row in done])
        out.append(one)
    return sorted(out, key=_rank)


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return {"mean": float(np.mean(known)) if known else None, "sd": deviation, "n": len(known)}


def _rank(one: dict[str, Any]) -> tuple[Any, ...]:
    """The reference first, then by the first figure that a method has."""
    means = [
        one["figures"].get(key, {}).get("mean")
        for key in ("pooled", "single", "switch", "accuracy")
    ]
    latents = one["figures"].get("mcc", {}).get("mean")
    known = next((mean for mean in means if mean is not None), None)
    return (
        one["method"] != ORACLE,
        known is None,
        -(known or 0.0),
        -(latents or 0.0),
        one["method"],
    )


def table(result: dict[str, Any]) -> str:
    """Format the comparison as a text table."""
    data = result["configuration"]["data"]
    columns: tuple[tuple[str, str, str, int], ...] = WORLD_COLUMNS
    if data["kind"] == "data":
        known = TRUTH_COLUMNS if "truth" in data else ()
        pooled = data.get("new", {}).get("pool", False)
        columns = (*(c for c in known if pooled or c[1] != "pooled"), *DATA_COLUMNS)
    shown = [one for one in result["summary"] if one["finished"]]
    lines = [["method", *(column[0] for column in columns)]]
    for one in shown:
        cells = []
        for _, figure, part, decimals in columns:
            found = one[part].get(figure) if part else one[figure]
            # what the reference is not asked is left empty
            nothing = "" if one["method"] == ORACLE else NA
            cells.append(_cell(found, decimals, spread=bool(part)) or nothing)
        lines.append([one["method"], *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def text(line: list[str]) -> str:
        first, *rest = zip(line, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]).rstrip()

    return "\n".join([text(line) for line in (lines if shown else [])] + notes(result))


def _cell(found: dict[str, Any] | None, decimals: int, *, spread: bool) -> str:
    if found is None or found["mean"] is None:
        return ""
    sd = found["sd"] if spread else None
    return f"{found['mean']:,.{decimals}f}" + ("" if sd is None else f" ± {sd:.{decimals}f}")


def notes(result: dict[str, Any]) -> list[str]:
    """Remarks below the table."""
    out = []
    data = result["configuration"]["data"]
    if data["kind"] == "data":
        out.append(SPLICED)
        alone = data["not_held_out"]
        if alone:
            out.append(f"Never held out, each with one recording: {', '.join(alone)}.")
    else:
        out.append(
            "pooled, single: correlation with the true weights, mean ± sd over seeds; oracle: true"
            " latents in our engine, the ceiling; NA: the method gives no such answer."
        )
    failed: dict[tuple[str, str], list[str]] = {}
    for row in result["rows"]:
        if row["status"] == FAILED:
            failed.setdefault((row["method"], row["reason"]), []).append(str(row["seed"]))
    for (name, reason), seeds in failed.items():
        several = "s" if len(seeds) > 1 else ""
        out.append(f"failed: {name} seed{several} {', '.join(seeds)}: {reason}")
    done = [row for row in result["rows"] if row["status"] == FINISHED]
    origins = {
        "versions of mechtrace": {row["versions"]["mechtrace"] for row in done},
        "machines or numbers of threads": {row["machine"] for row in done},
    }
    for what, found in origins.items():
        if len(found) > 1:
            out.append(f"Kept cells are of several {what} ({', '.join(sorted(found))}): --fresh.")
    for name, reason in result["skipped"].items():
        out.append(f"left out: {name}: {reason}")
    return out


def conclusion(result: dict[str, Any]) -> str:
    """Say in a sentence which method is best, and whether another one does as well as mechtrace.

    By the mean absolute error where the true weights are known, else that on spliced switches;
    empty if fewer than two methods have it.
    """
    data = result["configuration"]["data"]
    known = data["kind"] == "world" or "truth" in data
    figure, where = ("single_mae", "") if known else ("switch_mae", " on instant switches")
    errors = {
        one["method"]: found
        for one in result["summary"]
        if one["method"] != ORACLE and (found := one["figures"].get(figure)) and found["n"]
    }
    order = sorted(errors, key=lambda name: errors[name]["mean"])
    if len(order) < 2:
        return ""
    title = {name: result["methods"].get(name, {}).get("title", name) for name in order}
    best, second = order[:2]
    if OURS not in errors or (best == OURS and not _as_good(errors[OURS], errors[second])):
        first, other = errors[best]["mean"], errors[second]["mean"]
        return (
            f"{title[best]} is the best of {len(order)} here{where}: MAE {first:.2f}; next is"
            f" {title[second]} with {other:.2f}."
        )
    rival = second if best == OURS else best
    how = "does as well" if _as_good(errors[OURS], errors[rival]) else "is better"
    ours, other = errors[OURS]["mean"], errors[rival]["mean"]
    than = "as" if how == "does as well" else "than"
    return (
        f"{title[rival]} {how} here{where} {than} {title[OURS]}: MAE {other:.2f} against"
        f" {ours:.2f}."
    )


def _as_good(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two errors differ by less than matters, or than their standard error."""
    spread = [(found["sd"] or 0.0) / np.sqrt(found["n"]) for found in (one, other)]
    return bool(abs(one["mean"] - other["mean"]) <= max(CLOSE, float(np.hypot(*spread))))


def write_files(result: dict[str, Any], out: Path) -> None:
    """comparison.json, and comparison.csv with a row for each cell."""
    with atomic_path(out / "comparison.json") as temporary:
        text = json.dumps(result, indent=1, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    rows = [_flat(row) for row in result["rows"]]
    names = list(dict.fromkeys(key for row in rows for key in row))
    with (
        atomic_path(out / "comparison.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {k: escape_formula(v) if isinstance(v, str) else v for k, v in row.items()}
            )


def _flat(row: Row) -> dict[str, Any]:
    out = {key: row.get(key) for key in ("method", "seed", "status", "reason")}
    out |= row.get("figures", {})
    out |= {f"{key}_oracle_selected": v for key, v in row.get("oracle_selected", {}).items()}
    costs = ("seconds", "answer_seconds", "memory_mb", "gpu_memory_mb")
    return out | {key: row[key] for key in costs if key in row}


def curves_frame(rows: Sequence[Row], new: Panel, regimes: Sequence[str], folder: Path) -> Any:
    """The curves of all methods for the new recordings: a table (pandas)."""
    import pandas as pd

    owner = np.asarray(new.names)[new.series_index()]
    time = np.concatenate([new.time_of(i) for i in range(len(new))])
    frames: list[pd.DataFrame] = []
    for row in rows:
        if row["status"] != FINISHED or row["curves"] is None:
            continue
        with np.load(folder / row["curves"], allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        keys = {"weights": (owner, time), "pooled": ("pooled", new.time_of(0))}
        for name, weights in found.items():
            series, stamps = keys[name]
            about = {"method": row["method"], "seed": row["seed"], "series": series}
            shares = dict(zip(regimes, weights.T, strict=True))
            frames.append(pd.DataFrame(about | {"time": stamps} | shares))
    return pd.concat(frames, ignore_index=True) if frames else None


def all_skipped(rows: Sequence[Row]) -> dict[str, str]:
    """Methods that turned out to lack a package, and which."""
    return {row["method"]: row["reason"] for row in rows if row["status"] == SKIPPED}
