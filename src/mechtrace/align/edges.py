"""What sets a regime apart, edge by edge, as far as the axes allow to say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

if TYPE_CHECKING:
    import pandas as pd

    from .axes import Axes

#: A change must be so large, as a share of the largest weight there is, to be worth a name.
LEAST_SHARE = 0.1
#: Probability of a false name over all edges of all regimes.
LEVEL = 0.01


def named_changes(axes: Axes) -> pd.DataFrame:
    """Edges in which a regime differs from what the regimes have in common (their median).

    Columns: regime, source, target, lag, usual, weight, error (of the difference), p_value, and
    `named`: both ends are identified axes. Of two regimes, the second is compared to the first.
    """
    import pandas as pd

    columns = ["regime", "source", "target", "lag", "usual", "weight", "error", "p_value", "named"]
    if axes.weights is None or axes.weights.error is None:
        return pd.DataFrame(columns=columns)
    weights, error = axes.weights.jacobian, axes.weights.error
    kinds = len(weights)
    usual = weights[0] if kinds == 2 else np.median(weights, axis=0)
    difference = weights - usual
    # the median of many is surer than any one of them
    spread = np.sqrt(error**2 + (error**2).mean(axis=0) / max(1, kinds - 1))
    statistic = np.abs(difference) / np.maximum(spread, 1e-12)
    large = np.abs(difference) >= LEAST_SHARE * np.abs(weights).max()
    found = np.argwhere(large & (statistic >= norm.isf(0.5 * LEVEL / weights.size)))
    rows = []
    for k, lag, source, target in found:
        at = k, lag, source, target
        ends = axes.axes[source], axes.axes[target]
        rows.append(
            (
                axes.weights.regimes[k],
                ends[0].name,
                ends[1].name,
                int(lag) + 1,
                float(usual[lag, source, target]),
                float(weights[at]),
                float(spread[at]),
                min(1.0, 2 * weights.size * float(norm.sf(statistic[at]))),
                ends[0].identified and ends[1].identified,
            )
        )
    frame = pd.DataFrame(rows, columns=columns)
    size = (frame["weight"] - frame["usual"]).abs()
    return frame.assign(size=size).sort_values("size", ascending=False).drop(columns="size")


def sentences(axes: Axes) -> list[str]:
    """Each named change in words; what cannot be named as an edge is said of its target."""
    verdicts = {axis.name: axis for axis in axes.axes}
    lines: list[str] = []
    for row in axes.changes().to_dict("records"):
        if row["named"]:
            lag = "" if row["lag"] == 1 else f" at lag {row['lag']}"
            text = (
                f"{row['regime']} {_verb(row['usual'], row['weight'], row['error'])}"
                f" {row['source']} -> {row['target']}{lag}"
                f" ({row['usual']:.2f} to {row['weight']:.2f})"
            )
        elif verdicts[row["target"]].identified:
            text = (
                f"{row['regime']} changes what drives {row['target']}, by sources not told apart"
            )
        else:
            continue
        if text not in lines:
            lines.append(text)
    return lines


def _verb(usual: float, weight: float, error: float) -> str:
    if weight * usual < 0 and abs(usual) > 4 * error:
        return "reverses"
    return "strengthens" if abs(weight) > abs(usual) else "weakens"
