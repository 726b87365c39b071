"""Which models and measures make up each table of the paper, beside what it prints there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import tables
from .models import Model
from .notes import NOTES
from .tables import Figure

SCHEDULES = ("simple", "medium", "complex")
#: Whose answers stand side by side.
WHO = ("algorithm1", "default", "oracle")


@dataclass(frozen=True)
class Ask:
    """A measure with its options."""

    measure: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """Its name in a result file."""
        return f"{self.measure} {json.dumps(dict(self.options), sort_keys=True)}"


@dataclass(frozen=True)
class Entry:
    """One cell of a printed table: what the paper says, and where our figures for it are."""

    row: str
    column: str
    printed: Figure | None
    model: Model
    ask: Ask
    #: who -> path into the figures of the measure
    where: tuple[tuple[str, tuple[str, ...]], ...]
    better: str = "more"  # or "less", or "" where neither is better


@dataclass(frozen=True)
class Table:
    """A table or a figure of the paper."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    note: str = ""


def _each(figure: str, who: tuple[str, ...] = WHO) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((one, (one, figure)) for one in who)


def _all(figure: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A figure that is not of one answer: it stands in our column."""
    return (("default", (figure,)),)


def _recovery(active: tuple[int, ...], schedule: str = "simple", **more: Any) -> Ask:
    options = {"active": active, "schedule": schedule} | more
    return Ask("recovery", tuple(options.items()))


K5 = Model("k5", (("regimes", 5),))
K10 = Model("k10", (("regimes", 10),))
K3 = Model("k3", (("regimes", 3),))
THREE, FIVE = (0, 2, 4), (0, 1, 2, 3, 4)
LATENTS = Ask("latents")
#: Recordings of each of 50 regimes; the paper does not say, and 40,000 would be 100 GB at d = 128.
OF_MANY = 4_000


def _sweep(printed: Mapping[float, tuple[Figure, ...]], option: str) -> Iterator[Entry]:
    ask, limits = _recovery(THREE), Ask("bounds", (("active", THREE),))
    for value, figures in printed.items():
        made = {"noise": 0.1, "edge": 0.5} | {option: value}
        name = f"noise-{made['noise']:g}-edge-{made['edge']:g}"
        model = Model(name, (("regimes", 5), *made.items()))
        row = f"{option} {value:g}"
        paper = dict(zip(tables.SWEEP_COLUMNS, figures, strict=True))
        yield Entry(row, "MCC", paper["mcc"], model, LATENTS, _all("mcc"))
        yield Entry(row, "corr", paper["corr"], model, ask, _each("pooled"))
        yield Entry(row, "MAE raw", paper["mae_raw"], model, ask, _each("mae"), "less")
        yield Entry(
            row, "MAE calibrated", paper["mae_calibrated"], model, ask,
            _each("mae_calibrated"), "less",
        )  # fmt: skip
        for figure in ("sigma_min", "noise", "delta_approx", "snr"):
            where = (("algorithm1", (figure,)),)
            yield Entry(row, figure, paper[figure], model, limits, where, "")
        yield Entry(
            row, "below the bound", Figure(1.0), model, limits, (("algorithm1", ("below",)),)
        )


def _by_schedule(
    model: Model, printed: Mapping[int, tuple[Figure, ...]], figure: str, prefix: str
) -> Iterator[Entry]:
    for count, figures in printed.items():
        for schedule, value in zip(SCHEDULES, figures, strict=True):
            ask = _recovery(tuple(range(count)), schedule)
            yield Entry(f"{prefix}{count} active", schedule, value, model, ask, _each(figure))


def _scaling() -> Iterator[Entry]:
    yield from _by_schedule(K10, tables.SCALING, "pooled", "alpha, ")
    yield from _by_schedule(K10, tables.SCALING_W, "w", "W, ")


def _capacity() -> Iterator[Entry]:
    yield from _by_schedule(K5, tables.CAPACITY, "pooled", "K = 5, ")
    same = {count: tables.SCALING[count] for count in tables.CAPACITY}
    yield from _by_schedule(K10, same, "pooled", "K = 10, ")


def _window() -> Iterator[Entry]:
    ask = Ask("windows", (("active", FIVE), ("schedule", "complex")))
    for width, (corr, mae) in tables.WINDOW.items():
        for column, printed, figure, better in (
            ("corr", corr, "pooled", "more"), ("MAE", mae, "mae", "less"),
        ):  # fmt: skip
            where = (
                ("algorithm1", (str(width), figure)),
                ("default", ("default", figure)),
                ("oracle", ("oracle", figure)),
            )
            yield Entry(f"w = {width}", column, printed, K5, ask, where, better)


def _samples() -> Iterator[Entry]:
    for count, (mcc, three, five) in tables.SAMPLES.items():
        model = K5 if count == K5.recordings else Model(
            f"k5-of-{count}", K5.options, recordings=count
        )  # fmt: skip
        row = f"{count:,} per regime"
        yield Entry(row, "MCC", mcc, model, LATENTS, _all("mcc"))
        yield Entry(row, "3 active", three, model, _recovery(THREE), _each("pooled"))
        yield Entry(row, "5 active", five, model, _recovery(FIVE), _each("pooled"))


def _beyond() -> Iterator[Entry]:
    # all changes are drawn alike: the first five are as good as any
    active = FIVE
    for d, printed in tables.BEYOND.items():
        options = (("regimes", 50), ("latents", d), ("channels", 2 * d), ("change", "dense"))
        model = Model(f"k50-d{d}", options, recordings=OF_MANY, align=False)
        yield Entry(f"d = {d}, dense", "corr", printed, model, _recovery(active), _each("pooled"))
    options = (("regimes", 50), ("latents", 8), ("channels", 16), ("change", "two-edges"))
    sparse = Model("k50-d8-two-edges", options, recordings=OF_MANY, align=False)
    yield Entry(
        "d = 8, two edges", "corr", tables.BEYOND_SPARSE, sparse,
        _recovery(active), _each("pooled"),
    )  # fmt: skip


def _ood() -> Iterator[Entry]:
    ask = Ask("two_stages", (("active", THREE),))
    places = {
        ("ID", "stage 1 only"): (("default", "ID, stage 1 only"),),
        ("OOD", "stage 1 only"): (("default", "OOD, stage 1 only"),),
        ("OOD", "two stages"): (
            ("algorithm1", "OOD, algorithm1"), ("default", "OOD, default"),
        ),
    }  # fmt: skip
    for key, (corr, mse) in tables.OOD.items():
        for column, printed, figure, better in (
            ("corr", corr, "pooled", "more"), ("MSE", mse, "mse", "less"),
        ):  # fmt: skip
            where = tuple((who, (place, figure)) for who, place in places[key])
            yield Entry(", ".join(key), column, printed, K5, ask, where, better)


def _impurity() -> Iterator[Entry]:
    limits = Ask("bounds", (("active", THREE),))
    for share, (mcc, corr, sigma) in tables.IMPURITY.items():
        options = (("regimes", 5), ("change", "dense"), ("impurity", share))
        model, row = Model(f"impure-{share:g}", options), f"impurity {share:.0%}"
        yield Entry(row, "MCC", mcc, model, LATENTS, _all("mcc"))
        yield Entry(row, "corr", corr, model, _recovery(THREE), _each("pooled"))
        where = (("algorithm1", ("sigma_min",)),)
        yield Entry(row, "sigma_min", sigma, model, limits, where, "")
    for share in (0.1, 0.2, 0.5):
        model = Model(f"labels-{share:g}", (("regimes", 5),), label_noise=share)
        row = f"labels {share:.0%} wrong"
        yield Entry(row, "MCC", None, model, LATENTS, _all("mcc"))
        yield Entry(row, "corr", None, model, _recovery(THREE), _each("pooled"))


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
            yield Entry(row, column, value, model, _recovery(active), _each(figure))


def _simplex() -> Iterator[Entry]:
    ask = Ask("simplex", (("active", THREE),))
    columns = ("pooled", "negative_steps", "lowest", "highest")
    for row, figures in tables.SIMPLEX.items():
        for column, value in zip(columns, figures, strict=True):
            who = ("algorithm1", "default")
            where = tuple((one, (f"{one}, {row}", column)) for one in who)
            better = "more" if column == "pooled" else ""
            yield Entry(row, column, value, K5, ask, where, better)


def _trajectory() -> Iterator[Entry]:
    yield Entry(
        "0 -> 2 -> 4", "corr", tables.TRAJECTORY, K5, _recovery(THREE), _each("pooled")
    )  # fmt: skip
    ask = Ask("curves", (("active", THREE),))
    where = (("algorithm1", ("algorithm1_mse",)), ("default", ("default_mse",)))
    yield Entry("0 -> 2 -> 4", "MSE calibrated", None, K5, ask, where, "less")


def _calibration() -> Iterator[Entry]:
    ask = Ask("curves", (("active", (0, 4)), ("schedule", "linear")))
    where = (("algorithm1", ("algorithm1_mse",)), ("default", ("default_mse",)))
    yield Entry("0 -> 4", "MSE calibrated", tables.CALIBRATION, K5, ask, where, "less")


def _assumption() -> Iterator[Entry]:
    ask = Ask("convexity", (("active", (0, 1, 2)),))
    for row in ("valid", "emergent edge"):
        for column, figure, who in (
            ("p of the KS test, all steps", "ks_p_all", "algorithm1"),
            ("alarms of the KS test", "ks_alarms", "algorithm1"),
            ("alarms of our test", "alarms", "default"),
            ("p of our test, trials pooled", "pooled_p", "default"),
        ):
            yield Entry(row, column, None, K3, ask, ((who, (row, figure)),), "")


_ALL: tuple[tuple[str, str, Iterator[Entry]], ...] = (
    ("noise", "Table 2, scheme 1, and E.1: noise", _sweep(tables.NOISE, "noise")),
    (
        "perturbation",
        "Table 2, scheme 2, and E.1: size of the change",
        _sweep(tables.PERTURBATION, "edge"),
    ),
    ("trajectory", "Figure: the trajectory 0 -> 2 -> 4", _trajectory()),
    ("calibration", "Figure: calibration of a two-regime change", _calibration()),
    ("scaling", "Table 3 and full scaling, K = 10 in 8 latents", _scaling()),
    ("window", "Smoothing window, 5 active, complex", _window()),
    ("capacity", "Model capacity, K = 5 against 10", _capacity()),
    ("samples", "Sample efficiency", _samples()),
    ("beyond", "Scaling beyond capacity, K = 50, 5 active", _beyond()),
    ("ood", "Two stages on transitions never seen", _ood()),
    ("impurity", "Impure mechanisms and wrong labels", _impurity()),
    ("misspecified", "Another number of regimes", _misspecified()),
    ("simplex", "Simplex against free weights", _simplex()),
    ("assumption", "The convexity assumption, and an emergent edge", _assumption()),
)
TABLES = {
    name: Table(name, title, tuple(entries), NOTES.get(name, "")) for name, title, entries in _ALL
}


def asked(names: list[str]) -> dict[Model, list[Ask]]:
    """Every model that these tables need, with all that is asked of it."""
    wanted: dict[Model, list[Ask]] = {}
    for name in names:
        for entry in TABLES[name].entries:
            of_model = wanted.setdefault(entry.model, [])
            if entry.ask not in of_model:
                of_model.append(entry.ask)
    return wanted
