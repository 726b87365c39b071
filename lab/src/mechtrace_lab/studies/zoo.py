"""Study of accuracy and trust on the systems of the zoo, with default settings throughout."""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from mechtrace import worlds
from mechtrace.data import Panel
from mechtrace.errors import DataWarning, FitWarning, MechtraceError, MissingDependency
from mechtrace.estimator import Trace
from mechtrace.io import versions
from mechtrace.metrics import weight_correlation
from mechtrace.stage2 import Trajectory
from mechtrace.worlds.zoo import FAULTS, SYSTEMS, Zoo

from ..baselines import make
from ..jobs import parallel_map
from .recovery import EDGE
from .zoo_summary import VERDICTS, zoo_summary

logger = logging.getLogger(__name__)

#: Rows of the centred windows whose moments the classifiers see.
WINDOW = 31
#: Other methods that see rows; classifiers of window moments are added.
RIVALS = ("gaussian-hmm", "nearest-mean")
#: Seeds of recordings: of training, left out and transitions.
TRAIN, LEFT_OUT, NEW = 0, 1, 2

Curves = list[np.ndarray]


def zoo_study(
    *,
    systems: Sequence[str] = tuple(SYSTEMS),
    seeds: int = 5,
    first: int = 0,
    series: int = 40,
    trials: int = 12,
    length: int = 300,
    rivals: bool = True,
    workers: int = 1,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
    **settings: Any,
) -> dict[str, Any]:
    """Fit every system with every seed and score transitions, pure recordings and faults.

    Parameters
    ----------
    systems : sequence of str
        Names of systems.
    seeds, first : int
        Number of draws of each system, and the first seed.
    series : int
        Labelled recordings of each regime.
    trials : int
        Recordings of the transition, and of each kind of fault; half as many schedules are
        simple, the others medium.
    length : int
        Rows of a recording.
    rivals : bool
        Also score other methods.
    workers : int
        Fits that run at once.
    on_result : callable
        Called with the result after every fit.
    **settings
        Settings of `Trace`.
    """
    sizes = {"series": series, "trials": trials, "length": length, "rivals": rivals}
    calls = [
        (system, seed, sizes, settings)
        for seed in range(first, first + seeds)
        for system in systems
    ]
    result: dict[str, Any] = {
        **sizes, "rows": [], "settings": Trace(**settings).get_params(), "versions": versions(),
    }  # fmt: skip
    for row in parallel_map(zoo_row, calls, workers):
        result["rows"].append(row)
        result["summary"] = zoo_summary(result["rows"])
        logger.info(_line(row))
        on_result(result)
    return result


def zoo_row(
    system: str, seed: int, sizes: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Fit one draw of a system and score everything."""
    world = cast(Zoo, worlds.make(f"zoo/{system}", seed=seed, length=sizes["length"]))
    train = world.simulate(sizes["series"], seed=TRAIN).panel
    trace = Trace(seed=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", DataWarning)
        began = time.perf_counter()
        trace.fit(train, progress=False)
        row: dict[str, Any] = {
            "system": system, "seed": seed, "latents": world.config.latents,
            "channels": train.shape[0], "fit_seconds": time.perf_counter() - began,
        }  # fmt: skip
        made = _transitions(world, sizes["trials"])
        began = time.perf_counter()
        paths = [path for run in made for path in _recovered(trace, run.panel)]
        truth = [alpha for run in made for alpha in run.alpha]
        row["recover_seconds"] = time.perf_counter() - began
        row["evidence"] = trace.record_.evidence.selected if trace.record_.evidence else ()
        row["mechtrace"] = _score([path.alpha for path in paths], truth)
        row["oracle"] = _score([a for run in made for a in worlds.oracle(run).alpha], truth)
        row["intervals"] = _intervals(paths, truth)
        row["valid"] = [
            _judged(trace, path, alpha) for path, alpha in zip(paths, truth, strict=True)
        ]
        row["pooled"] = _pooled(trace, made[0])
        pure = world.simulate(max(2, sizes["trials"] // 3), seed=LEFT_OUT)
        row["pure"] = [
            _judged(trace, path, alpha)
            for path, alpha in zip(_recovered(trace, pure.panel), pure.alpha, strict=True)
        ]
        row["faults"] = {kind: _fault(trace, world, kind, sizes["trials"]) for kind in FAULTS}
        panels = [run.panel for run in made]
        row["algorithm1"] = _score(
            [p.alpha for panel in panels for p in _recovered(trace, panel, method="algorithm1")],
            truth,
        )
        if sizes["rivals"]:
            row |= _rivals(train, panels, truth)
    return row


def _transitions(world: Zoo, trials: int) -> list[worlds.Simulation]:
    half = max(1, trials // 2)
    return [
        world.transition("simple", series=half, seed=NEW),
        world.transition("medium", series=max(1, trials - half), seed=NEW + 1),
    ]


def _recovered(trace: Trace, panel: Panel, **options: Any) -> list[Trajectory]:
    return cast(list[Trajectory], trace.recover(panel, **options))


def _score(curves: Curves, truth: Curves) -> dict[str, float]:
    """Mean correlation and absolute error over recordings, of rows that have an answer."""
    corr, error = [], []
    for found, alpha in zip(curves, truth, strict=True):
        known = np.isfinite(found).all(axis=1)
        error.append(float(np.abs(found[known] - alpha[known]).mean()))
        corr.append(weight_correlation(alpha, found))
    return {"corr": float(np.mean(corr)), "mae": float(np.mean(error))}


def _intervals(paths: Sequence[Trajectory], truth: Curves) -> dict[str, float]:
    lower, upper = (np.concatenate([getattr(p, n) for p in paths]) for n in ("lower", "upper"))
    alpha = np.concatenate(truth)
    inside = (lower <= alpha + 1e-9) & (alpha <= upper + 1e-9)
    between = (alpha > EDGE) & (alpha < 1 - EDGE)
    return {
        "cover": float(inside.mean()),
        "cover_between": float(inside[between].mean()),
        "width": float((upper - lower).mean()),
    }


def _judged(trace: Trace, path: Trajectory, alpha: np.ndarray) -> dict[str, Any]:
    """Verdict, true error, flagged rows and findings of one recording."""
    diagnosis = trace.diagnose(path)
    return {
        "mae": float(np.abs(path.alpha - alpha).mean()),
        "expected": path.expected_error,
        "verdict": diagnosis.verdict,
        "flagged": float((path.flag == "unexplained").mean()),
        "bad": [one.code for one in diagnosis.findings if one.level == "bad"],
        "caution": [one.code for one in diagnosis.findings if one.level == "caution"],
    }


def _pooled(trace: Trace, run: worlds.Simulation) -> dict[str, float]:
    path = cast(Trajectory, trace.recover(run.panel, pool=True))
    return _score([path.alpha], [run.alpha[0]]) | _intervals([path], [run.alpha[0]])


def _fault(trace: Trace, world: Zoo, kind: str, trials: int) -> list[dict[str, Any]]:
    """Verdict, and how well the flagged rows agree with the affected ones."""
    made = world.faulty(kind, series=max(1, trials // 2), seed=NEW + 2)
    assert made.fault is not None
    affected = np.zeros(made.alpha.shape[1], dtype=bool)
    affected[made.fault.start : made.fault.stop] = True
    try:
        paths = _recovered(trace, made.panel)
    except MechtraceError as error:  # refused with a sentence
        return [{"verdict": "refused", "why": str(error)}]
    out = []
    for path, alpha in zip(paths, made.alpha, strict=True):
        flagged = path.flag == "unexplained"
        both = int((flagged & affected).sum())
        f1 = 2 * both / max(1, int(flagged.sum()) + int(affected.sum()))
        row = _judged(trace, path, alpha) | {"f1": f1}
        if made.fault.sensors:
            found = trace.diagnose(path).findings
            meaning = " ".join(one.meaning for one in found if one.code == "sensors")
            names = [repr(made.panel.channels[sensor]) for sensor in made.fault.sensors]
            row["named"] = all(name in meaning for name in names)
        out.append(row)
    return out


def _rivals(train: Panel, panels: Sequence[Panel], truth: Curves) -> dict[str, Any]:
    out = {}
    for name in RIVALS:
        try:
            method = make(name).fit(train)
        except MissingDependency as error:
            logger.warning(str(error))
            continue
        out[name] = _score([c for p in panels for c in method.weights(p) or []], truth)
    for name, curves in _classified(train, panels).items():
        out[name] = _score(curves, truth)
    return out


def _classified(train: Panel, panels: Sequence[Panel]) -> dict[str, Curves]:
    """Probabilities of classifiers that see the moments of centred windows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inputs = np.concatenate([_moments(values) for values in train.to_arrays()])
    assert train.codes is not None
    kinds = {
        "logistic-moments": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "boosting-moments": HistGradientBoostingClassifier(random_state=0, max_iter=100),
    }
    out = {}
    for name, model in kinds.items():
        model.fit(inputs[::3], train.codes[::3])
        out[name] = [
            model.predict_proba(_moments(values)) for p in panels for values in p.to_arrays()
        ]
    return out


def _moments(values: np.ndarray) -> np.ndarray:
    """Mean, deviation and deviation of the steps over centred windows, (T, 3 p)."""
    x = np.asarray(values, float)
    half = WINDOW // 2
    padded = np.pad(x, ((half, half), (0, 0)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=0)
    steps = np.diff(windows, axis=-1)
    return np.concatenate([windows.mean(-1), windows.std(-1), steps.std(-1)], axis=1)


def verdict_rates(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How often each verdict was given."""
    count = Counter(row["verdict"] for row in rows)
    return {verdict: count[verdict] / max(1, len(rows)) for verdict in VERDICTS}


def _line(row: dict[str, Any]) -> str:
    rates, pure = verdict_rates(row["valid"]), verdict_rates(row["pure"])
    return (
        f"{row['system']} seed {row['seed']}: corr {row['mechtrace']['corr']:.3f} (oracle"
        f" {row['oracle']['corr']:.3f}), MAE {row['mechtrace']['mae']:.3f}, cover"
        f" {row['intervals']['cover']:.2f} / {row['intervals']['cover_between']:.2f},"
        f" trust {rates['trust']:.0%}, do not trust {rates['do not trust']:.0%}"
        f" (pure {pure['trust']:.0%}, {pure['do not trust']:.0%}), {row['fit_seconds']:.0f} s"
    )
