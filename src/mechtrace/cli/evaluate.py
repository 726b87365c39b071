"""`mechtrace evaluate`: recovered curves against what is known of the recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cli_fit import prepared
from .cli_options import (
    Bias,
    BlockNames,
    Causal,
    Data,
    Detrend,
    FitSettings,
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
    import numpy as np

    from .estimator import Trace
    from .series import Panel

#: Figures that are printed, in this order.
SPOKEN = ("pearson", "spearman", "mae", "low", "high", "midpoint", "coverage", "unknown")


def evaluate(
    data: Data,
    model: Annotated[
        Path | None, typer.Option(help="A trained model; without it, one is trained per group.")
    ] = None,
    time: TimeColumn = None,
    series: SeriesColumn = None,
    regime: RegimeColumn = None,
    group: GroupColumn = None,
    proxy: Annotated[
        str,
        typer.Option(metavar="REGIME=COLUMN", help="Column with the share of one of two regimes."),
    ] = "",
    missing: Missing = None,
    gap: Gap = None,
    rate: Rate = None,
    detrend: Detrend = None,
    causal: Causal = False,
    blocks: BlockNames = "",
    bias: Bias = False,
    option: FitSettings = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """How well curves match what is known: labels, or a column with the share of a regime.

    With --group each group (a subject) is left out in turn, a model learns from the labelled
    recordings of the others, and all recordings of the group are judged. With --model that model
    is judged on all recordings. Figures: correlations; mean absolute error; the weight where the
    truth is near 0 (low) and near 1 (high); how much later one half is crossed (midpoint);
    coverage of the truth by the intervals; and the share of steps flagged as unknown.

    \b
    Examples:
      mechtrace evaluate runs.csv --regime gait --series subject,trial --group subject
      mechtrace evaluate new.csv --model gait.mechtrace --proxy run=speed_share --json -
    """
    from .evaluate import mean_figures
    from .inputs import read_inputs, with_channels

    check_targets([json_file], [*data, *([model] if model else [])])
    if (model is None) == (group is None):
        raise ConfigError("one of --model and --group is needed", fix="see the examples")
    say = sayer(quiet)
    share_of, _, column = proxy.partition("=")
    if proxy and not (share_of and column):
        raise ConfigError(f"{proxy!r} is not REGIME=COLUMN", fix="write --proxy run=speed_share")
    reading = read_inputs(
        data, missing=missing, gap=gap, group=group, time=time, series=series, regime=regime
    )
    say(reading.how)
    trace = None
    if model is not None:
        from .estimator import load

        trace = load(model)
        was = trace.facts_.get("preparation", {})
        rate, detrend = rate or was.get("rate"), detrend or was.get("detrend")
    panel, beside = reading.panel, None
    if column:
        beside = prepared(with_channels(panel, [column]), rate)
        panel = with_channels(panel, [name for name in panel.channels if name != column])
    panel = prepared(panel, rate, detrend)
    request = {"causal": causal, "blocks": named(blocks), "bias": bias}
    judged = [(trace, panel, "")] if trace else _groups(panel, options(option or []), say)
    rows = []
    for learned, test, names in judged:
        truth = _truths(learned, test, beside, share_of)
        rows += _rows(learned, test, truth, share_of, request, names)
    if not rows:
        raise DataError("nothing is known of any recording", where=panel.source,
                        fix="name a column: --regime COLUMN or --proxy REGIME=COLUMN")  # fmt: skip
    summary = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row["figures"] for row in rows if row["kind"] == kind]
        summary[kind] = mean_figures(mine)
        shown = [f"{n} {summary[kind][n]:.3f}" for n in SPOKEN if _said(summary[kind].get(n))]
        say(f"{kind}, {len(mine)} recordings: {', '.join(shown)}")
    write_json(json_file, {"summary": summary, "rows": rows})


def _said(value: float | None) -> bool:
    return value is not None and value == value


def _groups(
    panel: Panel, settings: dict[str, Any], say: Any
) -> Iterator[tuple[Trace, Panel, str]]:
    from .estimator import Trace
    from .evaluate import leave_groups_out

    for fold in leave_groups_out(panel):
        names = ", ".join(fold.groups)
        say(f"leaving out {names}")
        trace = Trace().set_params(**settings).fit(panel[fold.learn], progress=False)
        yield trace, panel[fold.test], names


def _truths(trace: Trace, test: Panel, beside: Panel | None, regime: str) -> list[np.ndarray]:
    """Weights of each recording: by its labels, else by the column beside."""
    import numpy as np

    from .evaluate import truth_of_labels, truth_of_share

    found = truth_of_labels(test, trace.regimes_)
    if beside is None:
        return found
    if len(trace.regimes_) != 2 or regime not in trace.regimes_:
        known = ", ".join(trace.regimes_)
        what = f"a share of {regime!r} says nothing of the regimes {known}"
        raise ConfigError(what, fix="name one of two regimes: --proxy REGIME=COLUMN")
    place = trace.regimes_.index(regime)
    for i, name in enumerate(test.names):
        if not np.isfinite(found[i]).any():
            found[i] = truth_of_share(beside[str(name)].values[:, 0], place)
    return found


def _rows(
    trace: Trace, test: Panel, truths: Sequence[np.ndarray], regime: str,
    request: dict[str, Any], groups: str,
) -> list[dict[str, Any]]:  # fmt: skip
    import numpy as np

    from .evaluate import answers_of, figures, truth_of_labels

    answers = answers_of(trace.recover(test.without_labels(), **request))
    pure = [np.isfinite(one).all() for one in truth_of_labels(test, trace.regimes_)]
    out = []
    for i, (answer, truth) in enumerate(zip(answers, truths, strict=True)):
        if not np.isfinite(truth).all(axis=1).any():
            continue
        last = len(trace.regimes_) - 1
        place = trace.regimes_.index(regime) if regime else last
        kind = "labelled" if pure[i] else "transition"
        found = figures(answer, truth, place)
        out.append({"series": str(test.names[i]), "left_out": groups, "kind": kind,
                    "figures": found})  # fmt: skip
    return out
