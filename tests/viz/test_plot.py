"""Every figure shows what the result says, where it was asked to, and changes nothing else."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure

import mechtrace
from mechtrace.diagnose import Diagnosis, Finding
from mechtrace.errors import MechtraceError
from mechtrace.identifiability.axes import Axes, Axis, EvidenceSummary
from mechtrace.identifiability.mechanisms import Mechanisms
from mechtrace.metrics import mean_correlation
from mechtrace.stage2.contributions import Contributions
from mechtrace.viz import plot
from mechtrace.viz.plot import figure as style

mpl.use("Agg")

STEPS = 40
HOSTILE = ("_cost $x", "b $5 $", r"\frac$")


@pytest.fixture(autouse=True)
def _nothing_global_changes():
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def made(regimes=("walk", "trot", "run"), time=None, name="trial"):
    """A curve that goes from regime to regime, with every flag."""
    kinds = len(regimes)
    place = np.linspace(0, kinds - 1, STEPS)
    alpha = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(kinds)))
    path = plot.curve(
        alpha, time, regimes, lower=alpha - 0.05 * alpha, upper=alpha + 0.05, name=name
    )
    flag = path.flag.copy()
    flag[:3], flag[10:12], flag[20:23] = "warm-up", "missing", "unexplained"
    flag[30:32] = "disagree"
    known = alpha.copy()
    known[11] = np.nan
    worth = 1 + np.sin(place) ** 2
    return replace(path, alpha=known, flag=flag, residual=worth, surprise=2 * worth)


DATES = np.datetime64("2024-01-31T10:00") + np.arange(STEPS) * np.timedelta64(30, "s")
PATH, PAIR, MANY = made(), made(("walk", "run")), made([f"R{k}" for k in range(10)])
TRUTH = np.nan_to_num(PATH.alpha)
RANDOM = np.random.default_rng(0)
MATRICES = Mechanisms(
    PATH.regimes, RANDOM.normal(size=(3, 2, 4, 4)), error=np.full((3, 2, 4, 4), 0.5)
)
AXES = Axes(
    np.eye(3),
    np.zeros(3),
    (
        Axis("z0", ("mechanism form", "noise"), ("z0",), 0.1, 1e-9),
        Axis("z1", ("noise",), ("z1",), 0.05, 1e-3),
        Axis("z2", subspace=("z2",), used=False),
    ),
    (
        EvidenceSummary("mechanism form", 1, 0.1, 1e-9),
        EvidenceSummary("sparse change", 0, 0.0, 0.5),
    ),
)
FINDINGS = Diagnosis(
    "trial",
    (
        Finding("separation", "good", 9.0, 3.0, "", side="at least"),
        Finding("width", "caution", 0.5, 0.4, ""),
        Finding("convexity", "bad", 1e-9, 0.05, "", side="at least"),
        Finding("agreement", "good", 0.0, 0.1, ""),
        Finding("shape", "good", float("nan"), 0.0, ""),
    ),
)
CARRIED = Contributions(
    "trial", np.arange(STEPS), HOSTILE, ("flow", *HOSTILE), RANDOM.normal(size=(STEPS, 3, 4)), True
)
HISTORY = [{"step": s, "loss": 3.0 - s, "held_out_elbo": -4.0 + s} for s in range(3)]
FILM = RANDOM.random((STEPS, 6, 8))
Z = RANDOM.normal(size=(STEPS, 4))
KNOWN = [("walk", 0, 8), ("run", 30, 39), ({"walk": 0.5, "run": 0.5}, 19, 20, "trial")]

#: Every figure: a function of ax.
FIGURES = {
    "trajectory": lambda ax: plot.trajectory(PATH, ax, TRUTH),
    "trajectory of an array": lambda ax: plot.trajectory(TRUTH, ax),
    "trajectory of dates": lambda ax: plot.trajectory(made(time=DATES), ax),
    "trajectory of ten": lambda ax: plot.trajectory(MANY, ax),
    "trajectory, unknown": lambda ax: plot.trajectory(TRUTH * np.nan, ax),
    "simplex of two, unknown": lambda ax: plot.simplex_path(TRUTH * np.nan, ax),
    "trajectory of one step": lambda ax: plot.trajectory(TRUTH[:1], ax),
    "trajectory, hostile": lambda ax: plot.trajectory(made(HOSTILE), ax),
    "compare_curves": lambda ax: plot.compare_curves({"a": PATH, "_$": TRUTH}, ax, truth=TRUTH),
    "calibration": lambda ax: plot.calibration(
        PAIR, PAIR, ax, truth=np.nan_to_num(PAIR.alpha), known=KNOWN
    ),
    "residual": lambda ax: plot.residual(PATH, ax),
    "surprise": lambda ax: plot.surprise(PATH, ax),
    "latents": lambda ax: plot.latents(Z, ax, time=DATES, names=["$", "b", "c", "d"], truth=Z),
    "latents, unknown": lambda ax: plot.latents(np.full((5, 2), np.nan), ax),
    "overview": lambda ax: plot.overview([PATH, made(name="$other$")], ax),
    "overview of one regime": lambda ax: plot.overview([PAIR] * 30, ax, regime="run"),
    "overview of one step": lambda ax: plot.overview([TRUTH[:1]], ax),
    "overview of dates": lambda ax: plot.overview([made(time=DATES)], ax),
    "simplex of two": lambda ax: plot.simplex_path(PAIR, ax, truth=np.nan_to_num(PAIR.alpha)),
    "simplex of dates": lambda ax: plot.simplex_path(made(("a", "b"), DATES), ax),
    "simplex of three": lambda ax: plot.simplex_path(PATH, ax, truth=TRUTH),
    "simplex of ten": lambda ax: plot.simplex_path(MANY, ax),
    "mechanisms": lambda ax: plot.mechanisms(MATRICES, ax, lag=2),
    "mechanisms, difference": lambda ax: MATRICES.plot(ax, difference=True),
    "mechanisms of arrays": lambda ax: plot.mechanisms(RANDOM.random((2, 3, 3)), ax),
    "mechanisms_at": lambda ax: plot.mechanisms_at(MATRICES, PATH, [0, 20.2, 99], ax),
    "mechanisms_at of dates": lambda ax: plot.mechanisms_at(
        MATRICES, made(time=DATES), DATES[[0, 5]], ax
    ),
    "mechanisms_at, unknown": lambda ax: plot.mechanisms_at(MATRICES, PATH, [11], ax),
    "mechanism_graph, unknown": lambda ax: plot.mechanism_graph(np.full((2, 3, 3), np.nan), ax=ax),
    "mechanism_graph": lambda ax: plot.mechanism_graph(MATRICES, "run", ax),
    "mechanism_graph, difference": lambda ax: plot.mechanism_graph(
        RANDOM.random((2, 3, 3)), ax=ax, difference=True, top=4
    ),
    "contributions": lambda ax: CARRIED.plot(ax),
    "contributions of dates": lambda ax: plot.contributions(replace(CARRIED, time=DATES), ax),
    "contributions, unknown": lambda ax: plot.contributions(
        replace(CARRIED, values=CARRIED.values * np.nan), ax
    ),
    "correlation": lambda ax: plot.correlation(Z, Z[:, ::-1], ax),
    "correlation of ranks": lambda ax: plot.correlation(Z[:, :2], Z, ax, rank=True, match=False),
    "axes_evidence": lambda ax: AXES.plot(ax),
    "axes_evidence of none": lambda ax: plot.axes_evidence(Axes.unaligned(4), ax),
    "diagnosis": lambda ax: FINDINGS.plot(ax),
    "training": lambda ax: plot.training(HISTORY, ax),
    "recordings": lambda ax: plot.recordings([PATH, made(name="$other$")], ax),
    "recordings of dates": lambda ax: plot.recordings([made(time=DATES)] * 2, ax, titles="ab"),
    "aligned": lambda ax: plot.aligned([PATH, made(), made()], ax, event="onset"),
    "aligned, dates": lambda ax: plot.aligned([made(time=DATES)] * 2, ax, event="end"),
    "aligned, hostile": lambda ax: plot.aligned([made(HOSTILE)], ax, regime=HOSTILE[0]),
    "frames": lambda ax: plot.frames(FILM, PATH, ax, count=3),
    "frames in colour": lambda ax: plot.frames(np.stack([FILM] * 3, -1), PAIR, ax),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws_into_a_new_figure_with_labels(name):
    axes = np.ravel(FIGURES[name](None))
    axes[0].figure.canvas.draw()
    assert axes[0].get_xlabel()
    bare = ("frames", "simplex of t", "mechanism_graph")  # no second axis
    assert axes[0].get_ylabel() or name.startswith(bare)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws_where_it_is_told_to(name, check_draws_into):
    check_draws_into(FIGURES[name])


def test_every_public_function_is_tried():
    tried = {re.split(r"\W", name.replace("simplex", "simplex_path"))[0] for name in FIGURES}
    stub = Path(plot.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    exported = set(re.findall(r"from \.(?!figure)\w+ import ([a-z_]+) as", stub))
    assert exported - {"evenly_spaced"} == tried


def test_panels_can_be_given_one_by_one():
    figure = Figure()
    given = figure.subplots(2, 2)
    assert plot.mechanisms(MATRICES, given).tolist() == given.ravel()[:3].tolist()


# -- what is shown is what was found -----------------------------------------------------------


def test_a_recovered_curve_shows_every_regime_and_its_band(trained, world):
    path = trained.recover(world.transition("simple", seed=4).panel)
    truth = np.full(path.alpha.shape, 1 / 3)
    ax = path.plot(truth=truth)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:4] == [*path.regimes, "truth"]
    assert set(labels[4:]) == set(path.flag) - {""}
    drawn = [line.get_ydata() for line in ax.get_lines() if line.get_linestyle() == "-"]
    assert all(np.allclose(y, path.alpha[:, k]) for k, y in enumerate(drawn))
    assert sum(line.get_linestyle() == "--" for line in ax.get_lines()) == 4
    plot.residual(path)
    plot.surprise(path)


def test_a_fitted_model_shows_itself(trained, panel, world):
    path = trained.recover(world.transition("simple", seed=4).panel)
    for drawn in (
        trained.diagnose(path).plot(),
        trained.axes_.plot(),
        trained.mechanisms().plot(),
        plot.mechanisms(trained.weights_, difference=True),
        plot.training(trained),
        plot.overview(trained.recover(panel)),
        plot.latents(trained.encode(panel)[0], names=trained.axes_.names),
    ):
        np.ravel(drawn)[0].figure.canvas.draw()


def test_handovers_are_marked_and_can_be_left_out():
    def dotted(ax):
        return [line.get_xdata()[0] for line in ax.get_lines() if line.get_linestyle() == ":"]

    assert dotted(plot.trajectory(PATH)) == [event.midpoint for event in PATH.events(minimum=2)]
    assert dotted(plot.trajectory(PATH, events=False)) == []


def test_hostile_names_are_text_and_stay_in_the_legend():
    ax = plot.trajectory(made(HOSTILE))
    labels = [text.get_text() for text in ax.get_legend().get_texts()][:3]
    assert [text.replace(r"\$", "$").lstrip("\u200b") for text in labels] == list(HOSTILE)


def test_simplex_corners_are_the_pure_regimes():
    dots = plot.simplex_path(TRUTH).collections[-1].get_offsets()
    corners = np.array([[-(3**0.5) / 2, -0.5], [0, 1], [3**0.5 / 2, -0.5]])
    known = TRUTH.sum(axis=1) > 0
    assert np.allclose(dots[known], (TRUTH @ corners)[known])


def test_overview_stacks_the_colours_of_the_regimes():
    alpha = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [np.nan, np.nan]])
    pixels = plot.overview([alpha]).images[0].get_array() / 255
    below, above = (np.array(to_rgba(colour)[:3]) for colour in plot.COLOURS[:2])
    for column, (top, floor) in enumerate([(below, below), (above, above), (above, below)]):
        assert np.allclose(pixels[4, 200 * column], top, atol=0.005)
        assert np.allclose(pixels[-1, 200 * column], floor, atol=0.005)
    assert (pixels[:, -1] == 1).all()


def test_overview_of_thousands_shows_the_leader_of_each():
    pixels = plot.overview([np.array([[0.8, 0.2], [0.1, 0.9]])] * 2000).images[0].get_array()
    assert pixels.shape == (2000, 600, 3)
    assert to_hex(pixels[7, 0] / 255) == plot.COLOURS[0].lower()


def test_effects_that_may_be_none_are_hatched_and_no_arrows():
    weights = np.zeros((2, 1, 3, 3))
    weights[:, 0, 0, 1], weights[:, 0, 2, 0] = 1.0, -0.1
    found = Mechanisms(("a", "b"), weights, error=np.full(weights.shape, 0.1))
    axes = plot.mechanisms(found)
    assert axes[0].collections[0].get_array().count() == 8
    arrows = plot.mechanism_graph(found, "a").patches
    assert [to_hex(arrow.get_edgecolor()) for arrow in arrows] == [style.PLUS.lower()]


def test_differences_are_to_the_first_of_two_and_the_median_of_more():
    two = plot.mechanisms(MATRICES.jacobian[:2], difference=True)
    assert not two[0].images[0].get_array().any()
    more = plot.mechanisms(MATRICES, difference=True)
    shown = np.stack([np.asarray(ax.images[0].get_array()) for ax in more])
    assert np.allclose(np.median(shown, axis=0), 0)


def test_w_at_a_pure_step_is_that_of_the_regime():
    first = plot.mechanisms_at(MATRICES, TRUTH, [0])[0]
    assert np.allclose(first.images[0].get_array(), MATRICES.of("walk")[0])


def test_matched_latents_lie_on_the_diagonal():
    ax = plot.correlation(Z, Z[:, [2, 0, 3, 1]])
    assert np.allclose(np.diag(ax.images[0].get_array()), 1)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["z1", "z3", "z0", "z2"]
    assert ax.get_title() == f"MCC = {mean_correlation(Z, Z):.3f}"


def test_findings_lie_on_their_side_of_the_limit():
    ax = FINDINGS.plot()
    marks = [line for line in ax.get_lines() if line.get_marker() in style.LEVEL_MARKERS.values()]
    ends = {line.get_marker(): line.get_xdata()[0] for line in marks}
    assert ends["o"] < 1 < ends["^"] < ends["X"]


def test_colours_are_those_of_the_report():
    sheet = Path(mechtrace.__file__).parent / "viz" / "assets" / "report.css"
    light = sheet.read_text(encoding="utf-8").split("}")[0]
    named = dict(re.findall(r"--([\w-]+): (#\w{6})", light))
    ours = {f"c{k}": colour for k, colour in enumerate(style.COLOURS)}
    ours |= {f"flag{k}": colour for k, colour in enumerate(style.FLAG_COLOURS.values())}
    ours |= style.LEVEL_COLOURS | {"plus": style.PLUS, "minus": style.MINUS}
    ours |= {"early": style.EARLY, "late": style.LATE, "ink": style.INK, "soft": style.SOFT}
    ours |= {"grid": style.GRID}
    assert {name: colour.lower() for name, colour in ours.items()} == {k: named[k] for k in ours}


# -- bad input ---------------------------------------------------------------------------------

BAD = {
    "no axes": (lambda: plot.trajectory(PATH, 3), "give the axes"),
    "no array": (lambda: plot.trajectory("walk"), "not made of numbers"),
    "one dimension": (lambda: plot.trajectory(np.ones(3)), "2 dimensions"),
    "no steps": (lambda: plot.trajectory(np.ones((0, 2))), "shape"),
    "truth of another length": (lambda: plot.trajectory(PATH, truth=TRUTH[1:]), "truth has shape"),
    "times too few": (lambda: plot.curve(TRUTH, time=[1, 2]), "one time for each row"),
    "names too few": (lambda: plot.curve(TRUTH, regimes=["a"]), "one name for each column"),
    "no curves": (lambda: plot.compare_curves({}), "at least one"),
    "unknown regime": (lambda: plot.compare_curves({"a": PATH}, regime="fly"), "walk, trot, run"),
    "unknown known regime": (lambda: plot.calibration(PAIR, PAIR, known=[("fly", 0, 1)]), "fly"),
    "no residual": (lambda: plot.residual(TRUTH), "nothing is known of the residual"),
    "names of latents": (lambda: plot.latents(Z, names=["a"]), "one name for each column"),
    "no series": (lambda: plot.overview([]), "at least one"),
    "dates and numbers": (lambda: plot.overview([PATH, made(time=DATES)]), "others numbers"),
    "other regimes": (lambda: plot.overview([PATH, PAIR]), "different regimes"),
    "one regime": (lambda: plot.simplex_path(np.ones((5, 1))), "at least two"),
    "no squares": (lambda: plot.mechanisms(np.ones((2, 3, 4))), "square"),
    "no such lag": (lambda: plot.mechanisms(MATRICES, lag=3), "between 1 and 2"),
    "too few panels": (lambda: plot.mechanisms(MATRICES, [1]), "3 panels"),
    "panels of nothing": (lambda: plot.mechanisms(MATRICES, 3), "3 panels"),
    "free axes": (lambda: plot.training(HISTORY, Figure().add_axes((0, 0, 1, 1))), "subplots"),
    "no times": (lambda: plot.mechanisms_at(MATRICES, PATH, []), "at least one"),
    "strange times": (lambda: plot.mechanisms_at(MATRICES, PATH, ["soon"]), "give times"),
    "other model": (lambda: plot.mechanisms_at(MATRICES, PAIR, [0]), "same model"),
    "no arrows": (lambda: plot.mechanism_graph(MATRICES, top=0), "at least one"),
    "rows apart": (lambda: plot.correlation(Z, Z[1:]), "same rows"),
    "too few rows": (lambda: plot.correlation(Z[:1], Z[:1]), "more rows"),
    "no model axes": (lambda: plot.axes_evidence(PATH), "cannot be drawn"),
    "no diagnosis": (lambda: plot.diagnosis(PATH), "cannot be drawn"),
    "no history": (lambda: plot.training(3), "fitted model"),
    "strange history": (lambda: plot.training([HISTORY[0] | {"loss": "a"}]), "fitted model"),
    "empty history": (lambda: plot.training([]), "no evaluations"),
    "nothing seen": (lambda: plot.frames(FILM * np.nan, PATH), "show nothing"),
    "strange colours": (lambda: plot.frames(np.ones((STEPS, 3, 3, 5)), PATH), "colours last"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_leaves_no_figure(name):
    call, words = BAD[name]
    with pytest.raises(MechtraceError, match=re.escape(words)):
        call()
    assert not plt.get_fignums()


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MechtraceError, match=r"mechtrace\[plot\]"):
        plot.trajectory(PATH)
