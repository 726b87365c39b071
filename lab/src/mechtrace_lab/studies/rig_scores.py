"""Scores of recovered shares against the marks of an experiment with a pump."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Seconds from its mark within which a change counts as found in time.
NEAR = 15.0
#: Rows over which the level of a vibration is averaged.
SMOOTH = 15


def valve_score(
    time: np.ndarray,
    share: np.ndarray,
    anomaly: np.ndarray,
    marks: np.ndarray,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> dict[str, Any]:
    """Score the share of the fault in one experiment that changes in and out between marks."""
    known, true = np.isfinite(share), anomaly > 0.5
    said = np.where(known, share, 0.0) > 0.5
    begin, steady, leave, end = np.flatnonzero(marks)[[0, 1, -2, -1]]
    rows = np.arange(len(share))
    parts = {
        "before": rows < begin, "steady": (rows >= steady) & (rows < leave), "after": rows > end,
    }  # fmt: skip
    up, down = (np.flatnonzero(np.diff(said.astype(int)) == side) + 1 for side in (1, -1))
    out: dict[str, Any] = {
        "auc": _auc(share[known], true[known]),
        "f1": 2 * float((said & true).sum()) / max(1, int(said.sum() + true.sum())),
        "false_alarms": float(said[~true].mean()),
        "missed": float((~said[true]).mean()),
        **{name: float(np.mean(share[mine & known])) for name, mine in parts.items()},
        "clean": bool(
            len(up) == len(down) == 1
            and time[begin] - NEAR <= time[up[0]] <= time[steady] + NEAR
            and time[leave] - NEAR <= time[down[0]] <= time[end] + NEAR
        ),
        "changes": len(up) + len(down),
    }  # fmt: skip
    if lower is not None and upper is not None:
        inside = (lower <= anomaly + 1e-9) & (anomaly <= upper + 1e-9)
        sure = (parts["before"] | parts["steady"] | parts["after"]) & known
        out["cover"], out["width"] = (
            float(inside[sure].mean()), float((upper - lower)[known].mean()),
        )  # fmt: skip
    return out


def _auc(share: np.ndarray, true: np.ndarray) -> float:
    """Probability that a row of the fault has a larger share than a normal one."""
    ordered, inverse = np.unique(share, return_inverse=True)
    count = np.bincount(inverse, minlength=len(ordered))
    rank = (np.cumsum(count) - 0.5 * (count - 1))[inverse]
    positive = int(true.sum())
    total = positive * (len(true) - positive)
    return float((rank[true].sum() - 0.5 * positive * (positive + 1)) / max(1, total))


def course(vibration: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Course of an imbalance: the smoothed level of the vibration, 0 before its begin, 1 at most.

    Imbalance of a rotor shows in the level of the vibration and, at constant speed, in proportion.
    """
    kernel = np.ones(SMOOTH) / SMOOTH
    padded = np.pad(vibration, SMOOTH // 2, mode="edge")
    level = np.convolve(padded, kernel, "valid")
    rest = np.median(level[: np.flatnonzero(marks)[0]])
    return np.asarray(np.clip((level - rest) / max(np.quantile(level, 0.99) - rest, 1e-12), 0, 1))


def imbalance_score(share: np.ndarray, true: np.ndarray, marks: np.ndarray) -> dict[str, Any]:
    """Compare a share with its true course."""
    known, rows = np.isfinite(share), np.arange(len(share))
    begin, end = np.flatnonzero(marks)[[0, -1]]
    inner = known & (rows >= begin) & (rows <= end)
    return {
        "imbalance_corr": float(np.corrcoef(share[known], true[known])[0, 1]),
        "imbalance_mae": float(np.abs(share - true)[known].mean()),
        "imbalance_inner_corr": float(np.corrcoef(share[inner], true[inner])[0, 1]),
    }


def unknown_score(flagged: np.ndarray, anomaly: np.ndarray) -> dict[str, Any]:
    """Shares of the rows of the fault and of the normal rows that are flagged."""
    true = anomaly > 0.5
    return {
        "flagged_fault": float(flagged[true].mean()) if true.any() else float("nan"),
        "flagged_normal": float(flagged[~true].mean()),
    }


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means of every method over experiments and seeds, and the spread of means over seeds."""
    out = []
    for task, method in dict.fromkeys((row["task"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        found: dict[str, Any] = {"task": task, "method": method}
        for key in dict.fromkeys(key for row in mine for key in row):
            values = [row[key] for row in mine if isinstance(row.get(key), float | bool)]
            if values:
                found[key] = float(np.nanmean(values))
        f1 = [
            np.mean([row["f1"] for row in mine if row["seed"] == seed and "f1" in row])
            for seed in dict.fromkeys(row["seed"] for row in mine if "f1" in row)
        ]
        if len(f1) > 1:
            found["f1_spread"] = float(np.ptp(f1))
        out.append(found)
    return out


#: Columns of the printed table: heading, figure.
COLUMNS = (
    ("AUC", "auc"), ("F1", "f1"), ("spread", "f1_spread"), ("false alarms", "false_alarms"),
    ("missed", "missed"), ("before", "before"), ("steady", "steady"), ("after", "after"),
    ("clean", "clean"), ("cover", "cover"), ("width", "width"),
    ("course", "imbalance_corr"), ("unknown", "flagged_fault"),
    ("flagged normal", "flagged_normal"),
)  # fmt: skip


def markdown(found: Sequence[dict[str, Any]]) -> str:
    """Table of a summary."""
    head = "| task | method | " + " | ".join(title for title, _ in COLUMNS) + " |"
    lines = [head, "|" + "---|" * (2 + len(COLUMNS))]
    for row in found:
        cells = [f"{row[key]:.3f}" if key in row else "" for _, key in COLUMNS]
        lines.append(f"| {row['task']} | {row['method']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
