"""Entries of the tables about pictures and real recordings."""

from __future__ import annotations

from collections.abc import Iterator

from . import gait, tables, uavdt_boxes, uavdt_frames
from . import uavdt_methods as ways
from .entries import ALONE, THREE_ANSWERS, Entry, FigurePath
from .real_data import StudySource
from .reference_methods import TOLD_LINE


def cartpole_entries() -> Iterator[Entry]:
    """Pictures of a cart with a pole: latents that can be seen, and weights."""
    source = StudySource("cartpole", "pictures")

    def each(count: int, figure: str) -> tuple[FigurePath, ...]:
        prefix = {"algorithm1": "algorithm1_", "default": "", "oracle": "oracle_"}
        return tuple(
            FigurePath(who, source, ("figures", "recovery", str(count), f"{prefix[who]}{figure}"))
            for who in THREE_ANSWERS
        )

    for column, figure, value in (
        ("MCC", "mcc", tables.CARTPOLE_MCC), ("MCC, before alignment", "mcc_before", None),
    ):  # fmt: skip
        yield Entry(
            "x and theta", column, value, (FigurePath("default", source, ("figures", figure)),)
        )
    for count, value in ((3, tables.CARTPOLE), (5, None)):
        yield Entry(f"{count} active", "corr", value, each(count, "pooled"))
        yield Entry(f"{count} active", ALONE, None, each(count, "single"))


#: Columns of the gait table, with the figure behind each and what is better.
OF_GAIT = {
    "corr": ("pearson", "more"),
    "MAE": ("mae", "less"),
    "pure walking": ("pure_walk", "more"),
    "pure running": ("pure_run", "more"),
}


def gait_entries() -> Iterator[Entry]:
    """Walking and running: both sets of channels, every method."""
    for features in ("paper", "legs"):
        source = StudySource("gait", features)
        others = [name for name in gait.METHODS if name not in gait.OURS]
        ours = {"algorithm1": "algorithm1", "default": "mechtrace"}
        for row, who in (("TRACE", ours), *((name, {"other": name}) for name in others)):
            for column, (figure, better) in OF_GAIT.items():
                printed = (features, row, column) == ("paper", "TRACE", "corr")
                where = tuple(
                    FigurePath(one, source, ("figures", method, figure))
                    for one, method in who.items()
                )
                value = tables.GAIT if printed else None
                yield Entry(f"{features}, {row}", column, value, where, better)
    for row, shown in tables.GAIT_SHOWN.items():
        yield Entry(f"displayed trial, {row}", "corr", shown, ())


#: Columns of the vehicle table, with set of turns and figure behind each, and what is better.
OF_TURNS = {
    "corr": ("verified", "median_pearson", "more"),
    "MAE": ("verified", "mae", "less"),
    "corr, headings": ("blind", "median_pearson", "more"),
    "corr, S1606": ("single", "median_pearson", "more"),
}


def vehicles_entries() -> Iterator[Entry]:
    """Turns of vehicles by their boxes: every set of features, every method."""
    rows: dict[str, dict[str, str]] = {
        "TRACE": {"algorithm1": ways.ALGORITHM1, "default": ways.OURS}
    }
    taken = {way for who in rows.values() for way in who.values()}
    rows |= {name: {"other": name} for name in ways.METHODS if name not in taken}
    for features in uavdt_boxes.KINDS:
        first = features == "motion"
        source = StudySource("vehicles", features)
        for row, who in rows.items():
            if row in (ways.CENTROID, TOLD_LINE) and not first:
                continue  # they look at no features
            for column, (turns, figure, better) in OF_TURNS.items():
                where = tuple(
                    FigurePath(one, source, ("figures", method, turns, figure))
                    for one, method in who.items()
                )
                value = tables.VEHICLE.get(row) if first and column == "corr" else None
                yield Entry(f"{features}, {row}", column, value, where, better)


#: Columns of the frames, with the figure behind each and what is better.
OF_FRAMES = {"corr": ("correlation", "more"), "MAE": ("error", "less")}


def frames_entries() -> Iterator[Entry]:
    """A turning vehicle in real frames: learned from painted trails, and heuristics."""
    source = StudySource("frames", "trails")
    rows: dict[str, dict[str, str]] = {
        "TRACE": {"algorithm1": "Algorithm 1", "default": "mechtrace"},
        **{name: {"other": name} for name in uavdt_frames.HEURISTICS},
    }
    for scene in uavdt_frames.RECOVERED:
        for row, who in rows.items():
            for column, (figure, better) in OF_FRAMES.items():
                where = tuple(
                    FigurePath(one, source, ("figures", scene, way, figure))
                    for one, way in who.items()
                )
                printed = scene == uavdt_frames.PAINTED and column == "corr"
                value = tables.VEHICLE.get(row) if printed else None
                yield Entry(f"{scene}, {row}", column, value, where, better)
    yield Entry("nctrl-hard", "corr", tables.VEHICLE["nctrl-hard"], ())
    for column, figure, better in (
        ("corr, median", "median_correlation", "more"), ("MAE", "mean_error", "less"),
    ):  # fmt: skip
        place = FigurePath("default", source, ("figures", "turns", figure))
        yield Entry("painted turns, TRACE", column, None, (place,), better)
