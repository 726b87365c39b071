"""`mechtrace evaluate`: score recovered shares against labels, a proxy, or true shares."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError, DataError
from .options import (
    READING,
    RECOVERY,
    Data,
    FitSettings,
    Json,
    Quiet,
    assignments,
    check_targets,
    with_options,
    write_json,
)

if TYPE_CHECKING:
    import numpy as np

    from ..data.panel import Panel
    from ..estimator import Trace
    from ..evaluate import Figures

logger = logging.getLogger(__name__)

#: Scores that are printed, in this order.
PRINTED = ("pearson", "spearman", "mae", "low", "high", "midpoint", "coverage", "unknown")
#: Those that are about all regimes, not about one of them.
OF_ALL = ("pearson", "spearman", "mae", "coverage", "unknown")
#: Recordings that are scored one by one on the screen.
SHOWN = 10


@with_options(
    reading=READING,
    request={name: RECOVERY[name] for name in ("causal", "evidence", "estimate_offset")},
)
def evaluate(
    data: Data,
    model: Annotated[
        Path | None,
        typer.Option(help="Score this model; without it, one is fitted for each group left out."),
    ] = None,
    *,
    reading: dict[str, Any],
    proxy: Annotated[
        str,
        typer.Option(metavar="REGIME=COLUMN", help="Column with the share of one of two regimes."),
    ] = "",
    truth: Annotated[
        Path | None,
        typer.Option(
            help="Table of true shares: a column for each regime, and time and recording as in"
            " DATA. Without --model, DATA are tables that recover has written."
        ),
    ] = None,
    request: dict[str, Any],
    option: FitSettings = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score recovered shares against labels, the share of a regime, or a table of true shares.

    With --group-by each group (such as a subject) is left out in turn: a model is fitted to the
    labelled recordings of the others and scored on all recordings of the group. With --model that
    model is scored on all recordings. Scores: correlations; mean absolute error; the share where
    the truth is near 0 (low) and near 1 (high); the delay of crossing one half (midpoint);
    coverage of the truth by the intervals; and the fraction of steps flagged as unexplained.
    With --truth correlation, error and coverage are also listed for each regime and recording.

    \b
    Examples:
      mechtrace evaluate runs.csv --regime gait --series subject,trial --group-by subject
      mechtrace evaluate new.csv --model gait.mechtrace --proxy run=speed_share --json -
      mechtrace evaluate new.csv --model gait.mechtrace --truth shares.csv
      mechtrace evaluate alpha.csv --truth shares.csv --json scores.json
    """
    from ..data.read import read_inputs, with_channels
    from ..evaluate import mean_figures
    from ..io.parts import Preparation
    from .inputs import model_and_data

    check_targets([json_file], [*data, *(one for one in (model, truth) if one)])
    if truth is not None:
        if proxy or "group" in reading:
            what = "a table of true shares leaves nothing to --proxy and --group-by"
            raise ConfigError(what, fix="leave them out")
        write_json(json_file, _by_table(data, model, truth, reading, request))
        return
    if (model is None) == ("group" not in reading):
        raise ConfigError("one of --model and --group-by is needed", fix="add one of them")
    share_of, _, column = proxy.partition("=")
    if proxy and not (share_of and column):
        raise ConfigError(f"{proxy!r} is not REGIME=COLUMN", fix="write --proxy run=speed_share")
    extra = [column] if column else []
    trace = None
    if model is not None:
        if "channels" in reading:
            raise ConfigError("a model has its own channels", fix="leave out --channels")
        trace, panel = model_and_data(model, data, reading, labelled=True, extra=extra)
        preparation = trace.preparation_
    else:
        preparation = Preparation(rate=reading.pop("rate", None),
                                  detrend=reading.pop("detrend", None))  # fmt: skip
        if "channels" in reading:
            reading["channels"] += extra
        found = read_inputs(data, **reading)
        logger.info(found.summary)
        panel = found.panel
    shares = None
    if column:
        shares = replace(preparation, detrend=None).apply(with_channels(panel, extra))
        panel = with_channels(panel, [name for name in panel.channels if name != column])
    panel = trace.prepared(panel) if trace else preparation.apply(panel)
    folds = [(trace, panel, "")] if trace else _folds(panel, assignments(option or []))
    rows = []
    for fitted, test, names in folds:
        truths = _truths(fitted, test, shares, share_of)
        rows += _rows(fitted, test, truths, share_of, request, names)
    if not rows:
        raise DataError("nothing is known of any recording", where=panel.source,
                        fix="name a column: --regime COLUMN or --proxy REGIME=COLUMN")  # fmt: skip
    summary = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row["figures"] for row in rows if row["kind"] == kind]
        summary[kind] = mean_figures(mine)
        logger.info(f"{kind}, {len(mine)} recordings: {_text(summary[kind], PRINTED)}")
    write_json(json_file, {"summary": summary, "rows": rows})


def _text(scores: Figures, names: Sequence[str]) -> str:
    """Format the scores that are known."""
    known = [(name, scores.get(name, math.nan)) for name in names]
    return ", ".join(f"{name} {x:.3f}" for name, x in known if not math.isnan(x))


def _by_table(
    data: list[Path], model: Path | None, truth: Path,
    reading: dict[str, Any], request: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Score the shares of all regimes against a table; print and return the scores."""
    import numpy as np

    from ..evaluate import TruthTable, estimated_shares, figures, figures_by_regime, mean_figures
    from ..io.discover import find_inputs
    from ..stage2.trajectory import read_curves
    from .inputs import model_and_data, recovered

    if model is None:
        if reading:
            what = "tables that recover has written are not read with options"
            raise ConfigError(what, fix="leave out " + ", ".join(f"--{name}" for name in reading))
        paths = [path for file in find_inputs(data)[0] for path in read_curves(file)]
        preparation = None
    else:
        trace, panel = model_and_data(model, data, reading)
        paths, preparation = recovered(trace, panel, request), trace.preparation_
    regimes = paths[0].regimes
    if any(path.regimes != regimes for path in paths):
        raise DataError("the tables have different regimes", fix="score them one by one")
    table = TruthTable.read(truth, regimes, preparation)
    found = [(path, table.of(path.name, path.time)) for path in paths]
    known = [(path, shares) for path, shares in found if np.isfinite(shares).all(axis=1).any()]
    if not known:
        fix = "use the times and names of the recordings"
        raise DataError("it has none of the recordings and times", where=truth.name, fix=fix)
    answers = estimated_shares([path for path, _ in known])
    truths = [shares for _, shares in known]
    scores = [figures(*pair, 0) for pair in zip(answers, truths, strict=True)]
    rows: list[dict[str, Any]] = [
        {"series": path.name, "kind": "truth",
         "figures": {name: score[name] for name in OF_ALL if name in score},
         "regimes": figures_by_regime([answer], [shares], regimes)}
        for (path, shares), answer, score in zip(known, answers, scores, strict=True)
    ]  # fmt: skip
    summary = mean_figures([row["figures"] for row in rows])
    by_regime = figures_by_regime(answers, truths, regimes)
    logger.info(f"against {truth}, {len(rows)} recordings: {_text(summary, OF_ALL)}")
    for name, one in by_regime.items():
        logger.info(f"  {name}: {_text(one, OF_ALL)}")
    for row in rows[:SHOWN] if len(rows) > 1 else ():
        logger.info(f"  recording {row['series']}: {_text(row['figures'], OF_ALL)}")
    if len(rows) > SHOWN:
        logger.info(f"  ... and {len(rows) - SHOWN} more recordings")
    if len(known) < len(found):
        logger.info(f"{len(found) - len(known)} recordings are not in {truth}")
    return {"summary": {"truth": summary}, "regimes": by_regime, "rows": rows}


def _folds(panel: Panel, settings: dict[str, Any]) -> Iterator[tuple[Trace, Panel, str]]:
    """Leave each group out in turn: (model of the others, recordings of the group, its name)."""
    from ..estimator import Trace
    from ..evaluate import leave_groups_out

    for fold in leave_groups_out(panel):
        names = ", ".join(fold.groups)
        logger.info(f"leaving out {names}")
        trace = Trace().set_params(**settings).fit(panel[fold.learn], progress=False)
        yield trace, panel[fold.test], names


def _truths(trace: Trace, test: Panel, shares: Panel | None, regime: str) -> list[np.ndarray]:
    """Return the true shares of each recording: by its labels, else by the proxy."""
    import numpy as np

    from ..evaluate import truth_of_labels, truth_of_share

    found = truth_of_labels(test, trace.regimes_)
    if shares is None:
        return found
    if len(trace.regimes_) != 2 or regime not in trace.regimes_:
        known = ", ".join(trace.regimes_)
        what = f"a share of {regime!r} says nothing of the regimes {known}"
        raise ConfigError(what, fix="name one of two regimes: --proxy REGIME=COLUMN")
    place = trace.regimes_.index(regime)
    for i, name in enumerate(test.names):
        if not np.isfinite(found[i]).any():
            found[i] = truth_of_share(shares[str(name)].values[:, 0], place)
    return found


def _rows(
    trace: Trace, test: Panel, truths: Sequence[np.ndarray], regime: str,
    request: dict[str, Any], groups: str,
) -> list[dict[str, Any]]:  # fmt: skip
    """Scores of each recording whose true shares are known."""
    import numpy as np

    from ..evaluate import estimated_shares, figures, truth_of_labels
    from .inputs import recovered

    answers = estimated_shares(recovered(trace, test.without_labels(), request))
    pure = [np.isfinite(one).all() for one in truth_of_labels(test, trace.regimes_)]
    place = trace.regimes_.index(regime) if regime else len(trace.regimes_) - 1
    out = []
    for i, (answer, truth) in enumerate(zip(answers, truths, strict=True)):
        if not np.isfinite(truth).all(axis=1).any():
            continue
        kind = "labelled" if pure[i] else "transition"
        out.append({"series": str(test.names[i]), "left_out": groups, "kind": kind,
                    "figures": figures(answer, truth, place)})  # fmt: skip
    return out
