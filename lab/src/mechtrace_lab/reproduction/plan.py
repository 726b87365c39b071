"""The plan: entries of each table of the paper, and the sources of our figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..comparison.cells import ORACLE
from . import tables
from .compared_methods import ComparedMethod
from .entries import ALONE, THREE_ANSWERS, Entry, FigurePath, MeasureCall, PaperTable, Source
from .models import Model
from .notes import NOTES
from .real_data_plan import cartpole_entries, frames_entries, gait_entries, vehicles_entries
from .tables import Figure
from .theorems import SWEEPS, Theorems, case

SCHEDULES = ("simple", "medium", "complex")


def _each(model: Model, call: MeasureCall, figure: str) -> tuple[FigurePath, ...]:
    """Locations of a figure of all three answers."""
    return tuple(FigurePath.in_model(who, model, call, who, figure) for who in THREE_ANSWERS)


def _one(
    model: Model, call: MeasureCall, figure: str, who: str = "default"
) -> tuple[FigurePath, ...]:
    """Location of a figure of one answer, or of the model."""
    return (FigurePath.in_model(who, model, call, figure),)


def _recovery(active: tuple[int, ...], schedule: str = "simple", **more: Any) -> MeasureCall:
    options = {"active": active, "schedule": schedule} | more
    return MeasureCall("recovery", tuple(options.items()))


K5 = Model("k5", (("regimes", 5),))
K10 = Model("k10", (("regimes", 10),))
K3 = Model("k3", (("regimes", 3),))
THREE, FIVE = (0, 2, 4), (0, 1, 2, 3, 4)
LATENTS = MeasureCall("latents")
#: Recordings of each of 50 regimes; the paper does not say, and 40,000 would be 100 GB at d = 128.
OF_MANY = 4_000


def _sweep(printed: Mapping[float, tuple[Figure, ...]], option: str) -> Iterator[Entry]:
    call, limits = _recovery(THREE), MeasureCall("bounds", (("active", THREE),))
    for value, figures in printed.items():
        made = {"noise": 0.1, "edge": 0.5} | {option: value}
        name = f"noise-{made['noise']:g}-edge-{made['edge']:g}"
        model = Model(name, (("regimes", 5), *made.items()))
        row = f"{option} {value:g}"
        paper = dict(zip(tables.SWEEP_COLUMNS, figures, strict=True))
        yield Entry(row, "MCC", paper["mcc"], _one(model, LATENTS, "mcc"))
        yield Entry(row, "corr", paper["corr"], _each(model, call, "pooled"))
        yield Entry(row, ALONE, None, _each(model, call, "single"))
        yield Entry(row, "MAE raw", paper["mae_raw"], _each(model, call, "mae"), "less")
        yield Entry(
            row, "MAE calibrated", paper["mae_calibrated"],
            _each(model, call, "mae_calibrated"), "less",
        )  # fmt: skip
        for figure in ("sigma_min", "noise", "delta_approx", "snr"):
            where = _one(model, limits, figure, "algorithm1")
            yield Entry(row, figure, paper[figure], where, "")
        below = _one(model, limits, "below", "algorithm1")
        yield Entry(row, "below the bound", tables.BELOW_BOUND, below)


def _by_schedule(
    model: Model, printed: Mapping[int, tuple[Figure | None, ...]], figure: str, prefix: str
) -> Iterator[Entry]:
    for count, figures in printed.items():
        for schedule, value in zip(SCHEDULES, figures, strict=True):
            call = _recovery(tuple(range(count)), schedule)
            yield Entry(f"{prefix}{count} active", schedule, value, _each(model, call, figure))


def _scaling() -> Iterator[Entry]:
    yield from _by_schedule(K10, tables.SCALING, "pooled", "alpha, ")
    # nothing is printed for one recording
    alone = dict.fromkeys(tables.SCALING, (None,) * len(SCHEDULES))
    yield from _by_schedule(K10, alone, "single", "alpha of one recording, ")
    yield from _by_schedule(K10, tables.SCALING_W, "w", "W, ")


def _capacity() -> Iterator[Entry]:
    yield from _by_schedule(K5, tables.CAPACITY, "pooled", "K = 5, ")
    same = {count: tables.SCALING[count] for count in tables.CAPACITY}
    yield from _by_schedule(K10, same, "pooled", "K = 10, ")


#: Trials behind one curve: as many as everywhere (None), a handful, or one recording.
GROUPS = {"": None, ", of 10 trials": 10, ", of one recording": 1}


def _window() -> Iterator[Entry]:
    for words, trials in GROUPS.items():
        options: tuple[tuple[str, Any], ...] = (("active", FIVE), ("schedule", "complex"))
        call = MeasureCall(
            "windows", options if trials is None else (*options, ("trials", trials))
        )
        for width, (corr, mae) in tables.WINDOW.items():
            for column, printed, figure, better in (
                ("corr", corr, "pooled", "more"), ("MAE", mae, "mae", "less"),
            ):  # fmt: skip
                # only Algorithm 1 has a window
                part = {"algorithm1": str(width), "default": "default", "oracle": "oracle"}
                where = tuple(
                    FigurePath.in_model(who, K5, call, part[who], figure) for who in part
                )
                shown = printed if trials is None else None
                yield Entry(f"w = {width}{words}", column, shown, where, better)


def _schedules() -> Iterator[Entry]:
    for schedule, figures in tables.SCHEDULES.items():
        call = MeasureCall("schedule", (("active", FIVE), ("schedule", schedule)))
        for column, printed in zip(tables.SCHEDULE_COLUMNS, figures, strict=True):
            place = FigurePath.in_model("default", K5, call, column)
            yield Entry(schedule, column, printed, (place,), "")


def _samples() -> Iterator[Entry]:
    for count, (mcc, three, five) in tables.SAMPLES.items():
        model = K5 if count == K5.recordings else Model(
            f"k5-of-{count}", K5.options, recordings=count
        )  # fmt: skip
        row = f"{count:,} per regime"
        yield Entry(row, "MCC", mcc, _one(model, LATENTS, "mcc"))
        yield Entry(row, "3 active", three, _each(model, _recovery(THREE), "pooled"))
        yield Entry(row, "5 active", five, _each(model, _recovery(FIVE), "pooled"))
        yield Entry(row, f"3 active, {ALONE}", None, _each(model, _recovery(THREE), "single"))


def _beyond() -> Iterator[Entry]:
    cases = [(d, "dense", printed) for d, printed in tables.BEYOND.items()]
    for d, change, printed in (*cases, (8, "two-edges", tables.BEYOND_SPARSE)):
        options = (("regimes", 50), ("latents", d), ("channels", 2 * d), ("change", change))
        name = f"k50-d{d}" if change == "dense" else f"k50-d{d}-{change}"
        model = Model(name, options, recordings=OF_MANY, align=False)
        # all changes are drawn alike: the first five are as good as any
        call, row = _recovery(FIVE), f"d = {d}, {change.replace('-', ' ')}"
        yield Entry(row, "corr", printed, _each(model, call, "pooled"))
        yield Entry(row, ALONE, None, _each(model, call, "single"))


#: Steps that the gating network sees: as many as the experts, and nearly half a recording.
GATES = {" (2 steps)": None, " (20 steps)": 20}


def _ood() -> Iterator[Entry]:
    options: tuple[tuple[str, Any], ...] = (("active", THREE),)
    for (data, stages), (corr, mse) in tables.OOD.items():
        for words, past in GATES.items() if stages == "stage 1 only" else [("", None)]:
            call = MeasureCall(
                "two_stages", options if past is None else (*options, ("past", past))
            )
            who = {"other": stages} if words else {w: w for w in ("algorithm1", "default")}
            for column, printed, figure, better in (
                ("corr", corr, "pooled", "more"), ("MSE", mse, "mse", "less"),
            ):  # fmt: skip
                where = tuple(
                    FigurePath.in_model(one, K5, call, f"{data}, {name}", figure)
                    for one, name in who.items()
                )
                yield Entry(f"{data}, {stages}{words}", column, printed, where, better)


def _impurity() -> Iterator[Entry]:
    limits = MeasureCall("bounds", (("active", THREE),))
    for share, (mcc, corr, sigma) in tables.IMPURITY.items():
        options = (("regimes", 5), ("change", "dense"), ("impurity", share))
        model, row = Model(f"impure-{share:g}", options), f"impurity {share:.0%}"
        yield Entry(row, "MCC", mcc, _one(model, LATENTS, "mcc"))
        yield Entry(row, "corr", corr, _each(model, _recovery(THREE), "pooled"))
        where = _one(model, limits, "sigma_min", "algorithm1")
        yield Entry(row, "sigma_min", sigma, where, "")
    for share in (0.1, 0.2, 0.5):
        model = Model(f"labels-{share:g}", (("regimes", 5),), label_noise=share)
        row = f"labels {share:.0%} wrong"
        yield Entry(row, "MCC", None, _one(model, LATENTS, "mcc"))
        yield Entry(row, "corr", None, _each(model, _recovery(THREE), "pooled"))


def _misspecified() -> Iterator[Entry]:
    printed = tables.MISSPECIFIED
    twice = Model("k5-duplicates", (("regimes", 5), ("duplicate", (1, 3))))
    mean = Model("k5-averages", (("regimes", 5), ("average", ((0, 1), (2, 3)))))
    few = Model("k5-three-learned", (("regimes", 5),), learned=(0, 2, 4))
    cases = (
        ("as many as there are", K5, THREE, "as many as there are"),
        ("two duplicates, not active", twice, THREE, "two too many, not active"),
        ("two duplicates, active", twice, (0, 1, 3), "two too many, active"),
        ("two averages, not active", mean, (0, 2, 4), "two too many, not active"),
        ("two averages, active", mean, (0, 1, 5), "two too many, active"),
        ("two too few, seen regimes", few, THREE, "two too few, seen regimes"),
        ("two too few, unseen regimes", few, (0, 1, 3), "two too few, unseen regimes"),
    )
    for row, model, active, key in cases:
        for column, figure, value in (("corr", "pooled", printed[key]), ("W", "w", None)):
            yield Entry(row, column, value, _each(model, _recovery(active), figure))


def _simplex() -> Iterator[Entry]:
    call = MeasureCall("simplex", (("active", THREE),))
    columns = ("pooled", "negative_steps", "lowest", "highest")
    for row, figures in tables.SIMPLEX.items():
        for column, value in zip(columns, figures, strict=True):
            who = ("algorithm1", "default")
            where = tuple(
                FigurePath.in_model(one, K5, call, f"{one}, {row}", column) for one in who
            )
            better = "more" if column == "pooled" else ""
            yield Entry(row, column, value, where, better)


def _trajectory() -> Iterator[Entry]:
    where = _each(K5, _recovery(THREE), "pooled")
    yield Entry("0 -> 2 -> 4", "corr", tables.TRAJECTORY, where)
    where = _each(K5, _recovery(THREE), "single")
    yield Entry("0 -> 2 -> 4", ALONE, None, where)
    where = _calibrated(MeasureCall("curves", (("active", THREE),)))
    yield Entry("0 -> 2 -> 4", "MSE calibrated", None, where, "less")


def _calibration() -> Iterator[Entry]:
    call = MeasureCall("curves", (("active", (0, 4)), ("schedule", "linear")))
    yield Entry("0 -> 4", "MSE calibrated", tables.CALIBRATION, _calibrated(call), "less")


def _calibrated(call: MeasureCall) -> tuple[FigurePath, ...]:
    who = ("algorithm1", "default", "oracle")
    return tuple(FigurePath.in_model(one, K5, call, f"{one}_mse") for one in who)


#: Worlds in which the assumption is tested.
TESTED = {
    "paper": K3,
    **{
        world: Model(f"{world}-k3", (("regimes", 3),), world=world)
        for world in ("paper-positive", "laplace", "regime-noise", "linear-gaussian")
    },
}


def _assumption() -> Iterator[Entry]:
    call = MeasureCall("convexity", (("active", (0, 1, 2)),))
    for world, model in TESTED.items():
        for row in ("valid", "emergent edge"):
            for column, figure, who in (
                ("p of the KS test, all steps", "ks_p_all", "algorithm1"),
                ("alarms of the KS test", "ks_alarms", "algorithm1"),
                ("alarms of our test", "alarms", "default"),
                ("p of our test, trials pooled", "pooled_p", "default"),
            ):
                place = FigurePath.in_model(who, model, call, row, figure)
                yield Entry(f"{world}, {row}", column, None, (place,), "")


#: Columns of Table 1, those of weights and those of latents: where a figure lies in a cell's row.
OF_WEIGHTS = {"weights, pooled": ("figures", "pooled"), "weights, single": ("figures", "single")}
OF_LATENTS = {"MCC": ("figures", "mcc"), "MCC, oracle-selected": ("oracle_selected", "mcc")}
#: What TRACE is called in the contest, by whose answer it is. There nobody is told which regimes
#: take part, Algorithm 1 neither.
OURS = {"algorithm1": "algorithm1", "default": "mechtrace", "oracle": ORACLE}


def _methods() -> Iterator[Entry]:
    for name, (weights, mcc) in tables.METHODS.items():
        ours = name == OURS["default"]
        row, who = ("TRACE", OURS) if ours else (name, {"other": name})
        if weights is not None:
            yield from _contest(row, OF_WEIGHTS, weights, who)
        # the oracle has the true latents
        yield from _contest(row, OF_LATENTS, mcc, {k: v for k, v in who.items() if v != ORACLE})
    # not in the paper, but the best of the others
    yield from _contest("ar-hmm", OF_WEIGHTS, None, {"other": "ar-hmm"})


def _contest(
    row: str,
    columns: Mapping[str, tuple[str, str]],
    printed: Figure | None,
    who: Mapping[str, str],
) -> Iterator[Entry]:
    """Entries of a method; the paper prints the first column."""
    for column, path in columns.items():
        where = tuple(FigurePath(one, ComparedMethod(method), path) for one, method in who.items())
        yield Entry(row, column, printed, where)
        printed = None


def _theorems() -> Iterator[Entry]:
    source = Theorems()

    def entry(row: str, column: str, printed: Figure | None, better: str, *path: str) -> Entry:
        # Algorithm 1, with true latents: it is what the theorems are about
        return Entry(row, column, printed, (FigurePath("algorithm1", source, path),), better)

    for one in SWEEPS.cases:
        row = case(*one)
        for column, figure, value, better in (
            ("below the bound", "within", tables.BELOW_BOUND, "more"),
            ("worst error / bound", "worst_ratio", None, "less"),
            ("ordered pairs, one recording", "monotone_single", None, "more"),
            ("ordered pairs, mean of all", "monotone_ensemble", None, "more"),
            ("missed crossings, mean of all", "missed_ensemble", None, "less"),
            ("shift of crossings, steps", "shift_ensemble", None, "less"),
        ):
            yield entry(row, column, value, better, "worlds", row, figure)
    for length in SWEEPS.lengths:
        row = f"T = {length}"
        yield entry(row, "MSE, rule", None, "less", "lengths", str(length), "squared_error")
        yield entry(
            row, "MSE, cross-validation", None, "less", "lengths", str(length),
            "squared_error_gcv",
        )  # fmt: skip
    for column, kind in (("rate, rule", "rule"), ("rate, cross-validation", "gcv")):
        yield entry("MSE against T", column, tables.SMOOTH_RATE, "less", "rates", kind)


_ALL: tuple[tuple[str, str, Iterator[Entry]], ...] = (
    ("methods", "Table 1: other methods", _methods()),
    ("noise", "Table 2, scheme 1, and E.1: noise", _sweep(tables.NOISE, "noise")),
    (
        "perturbation",
        "Table 2, scheme 2, and E.1: size of the change",
        _sweep(tables.PERTURBATION, "edge"),
    ),
    ("theorems", "Theorems 2 and 3 against errors, with true latents", _theorems()),
    ("trajectory", "Figure: the trajectory 0 -> 2 -> 4", _trajectory()),
    ("calibration", "Figure: calibration of a two-regime change", _calibration()),
    ("scaling", "Table 3 and full scaling, K = 10 in 8 latents", _scaling()),
    ("schedules", "Trajectory complexity", _schedules()),
    ("window", "Smoothing window, 5 active, complex", _window()),
    ("capacity", "Model capacity, K = 5 against 10", _capacity()),
    ("samples", "Sample efficiency", _samples()),
    ("beyond", "Scaling beyond capacity, K = 50, 5 active", _beyond()),
    ("ood", "Two stages on transitions never seen", _ood()),
    ("impurity", "Impure mechanisms and wrong labels", _impurity()),
    ("misspecified", "Another number of regimes", _misspecified()),
    ("simplex", "Simplex against free weights", _simplex()),
    ("assumption", "The convexity assumption, and an emergent edge", _assumption()),
    ("cartpole", "Section 6.3: pictures of a cart with a pole", cartpole_entries()),
    ("gait", "Section 6.4: walking and running (CMU)", gait_entries()),
    (
        "vehicles",
        "Section 6.4 and E.12: turning vehicles by their boxes (UAVDT)",
        vehicles_entries(),
    ),
    ("frames", "Section 6.4 and E.12: a turning vehicle in real frames (UAVDT)", frames_entries()),
)
TABLES = {
    name: PaperTable(name, title, tuple(entries), NOTES.get(name, ""))
    for name, title, entries in _ALL
}


def measure_calls(names: list[str]) -> dict[Source, list[MeasureCall]]:
    """List every source that these tables need, with the measures to take."""
    wanted: dict[Source, list[MeasureCall]] = {}
    for name in names:
        for entry in TABLES[name].entries:
            for place in entry.where:
                calls = wanted.setdefault(place.source, [])
                if place.call is not None and place.call not in calls:
                    calls.append(place.call)
    return wanted
