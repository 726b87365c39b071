"""Figures of comparisons, studies and recordings."""

from __future__ import annotations

import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from mechtrace.errors import DataError, MechtraceError
from mechtrace.viz.plot import curve
from mechtrace_lab import plot

mpl.use("Agg")

STEPS = 40


@pytest.fixture(autouse=True)
def _figures_are_closed():
    yield
    plt.close("all")


def made(*regimes):
    """A curve that goes from regime to regime, unknown at one step."""
    place = np.linspace(0, len(regimes) - 1, STEPS)
    alpha = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(len(regimes))))
    alpha[11] = np.nan
    return curve(alpha, regimes=regimes)


def compared(kind):
    """A comparison of three methods, one of which answers little; and the oracle."""

    def figures(**known):
        return {name: {"mean": mean, "sd": 0.1, "n": 2} for name, mean in known.items()}

    scores = {
        "oracle": figures(pooled=0.99, single=0.7),
        "mechtrace": figures(pooled=0.9, single=0.6, mcc=0.9, switch=0.8, accuracy=0.9),
        "$other": figures(pooled=None, single=None, mcc=0.5),
        "a third": figures(pooled=-0.1, single=0.0, switch=0.1, accuracy=0.4),
    }
    summary = [
        {"method": name, "finished": 2, "figures": known, "oracle_selected": known}
        for name, known in scores.items()
    ]
    rows = [
        {"method": name, "status": "finished", "figures": row, "oracle_selected": row}
        for name, known in scores.items()
        for row in [{key: value["mean"] for key, value in known.items()}] * 2
    ]
    return {"configuration": {"data": {"kind": kind}}, "summary": summary, "rows": rows}


PATH, PAIR = made("walk", "trot", "run"), made("walk", "run")
TRUTH = np.nan_to_num(PATH.alpha)
RANDOM = np.random.default_rng(0)
CURVES = pd.concat(
    pd.DataFrame(TRUTH, columns=PATH.regimes).assign(method=m, seed=0, series=s, time=range(STEPS))
    for m in ("mechtrace", "_b")
    for s in ("$a", "pooled")
)
ROWS = [
    {"seed": seed, "noise": noise, "score": 1 - noise, "other": noise, "method": method}
    for seed in range(3)
    for noise in (0.1, 0.2, 0.5)
    for method in ("ours", "theirs")
]
THEORY = [
    {"varied": v, "value": x, "sigma_min": x, "snr": x, "error": x, "bound": 2 * x}
    for v in ("noise", "edge")
    for x in (0.1, 0.2)
]
JOINTS = RANDOM.normal(size=(STEPS, 4, 3))
BONES = [(0, 1), (1, 2), (1, 3)]
IMAGE = RANDOM.random((6, 8))
Z = RANDOM.normal(size=(STEPS, 4))

#: Every figure: a function of ax.
FIGURES = {
    "sweep": lambda ax: plot.sweep(ROWS, "noise", ["score", "other"], ax, by="method", log=True),
    "sweep of columns": lambda ax: plot.sweep({"x": [1, 2], "y": [3, 4]}, "x", "y", ax),
    "error_against_length": lambda ax: plot.error_against_length(
        [10, 100], {"_a$": [[1.0, 2.0], [0.1, 0.2]], "b": [3, 0.1]}, ax, bound=[4, 1]
    ),
    "error_against_bound": lambda ax: plot.error_against_bound([1, 2, 3], [2, 3, 1], ax),
    "theory": lambda ax: plot.theory(THEORY, ax),
    "methods": lambda ax: plot.methods({"a": [1, 2, 3], "b": 2.0, "c": [np.nan]}, ax),
    "comparison": lambda ax: plot.comparison(compared("world"), ax),
    "comparison on recordings": lambda ax: plot.comparison(compared("data"), ax),
    "method_curves": lambda ax: plot.method_curves(CURVES, ax, truth={"$a": TRUTH}),
    "method_curves of one recording": lambda ax: plot.method_curves(CURVES[:STEPS], ax),
    "track": lambda ax: plot.track(Z[:, :2], PATH, ax, regime="run", image=IMAGE),
    "skeletons": lambda ax: plot.skeletons(JOINTS, BONES, PATH, ax, plane=(0, 2)),
    "skeletons in the plane": lambda ax: plot.skeletons(JOINTS[..., :2], BONES, PAIR, ax),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws_into_a_new_figure_with_labels(name):
    axes = np.ravel(FIGURES[name](None))
    axes[0].figure.canvas.draw()
    assert axes[0].get_xlabel()
    assert axes[0].get_ylabel() or name.startswith("skeletons")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws_where_it_is_told_to(name, check_draws_into):
    check_draws_into(FIGURES[name])


def test_every_public_function_is_tried():
    assert set(plot.__all__) == {re.split(r"\W", name)[0] for name in FIGURES}


def test_a_comparison_marks_ours_and_says_what_is_not_answered():
    left, right = plot.comparison(compared("world"))
    assert next(text.get_text() for text in left.get_yticklabels()) == "mechtrace"
    assert [text.get_fontweight() for text in left.get_yticklabels()] == ["bold", *["normal"] * 2]
    assert [text.get_text() for text in left.texts] == ["NA"]
    assert right.texts[0].get_position()[1] == 2
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert "oracle, all trials together" in labels
    with pytest.raises(DataError, match="no result of a comparison"):
        plot.comparison({"rows": []})
    with pytest.raises(DataError, match="no method has finished"):
        plot.comparison(compared("world") | {"summary": []})
    with pytest.raises(DataError, match="no table of curves"):
        plot.method_curves(CURVES.drop(columns="seed"))


def test_sweep_shows_means_over_the_repeats():
    ax = plot.sweep({"x": [1, 1, 2, 2], "y": [0.0, 2.0, 3.0, 5.0]}, "x", "y")
    assert ax.get_lines()[0].get_ydata().tolist() == [1.0, 4.0]


def test_the_fitted_rate_is_in_the_legend():
    ax = plot.error_against_length([10, 100, 1000], [1.0, 0.1, 0.01])
    assert "-1.00" in ax.get_legend().get_texts()[0].get_text()


def test_points_above_the_bound_stand_out():
    ax = plot.error_against_bound([1.0, 5.0], [2.0, 4.0])
    assert ax.get_title(loc="left") == "50 % within the bound"
    assert [len(dots.get_offsets()) for dots in ax.collections[-2:]] == [1, 1]


def test_given_arrays_stay_as_they_are():
    joints = JOINTS.copy()
    plot.skeletons(joints, BONES, PATH)
    assert np.array_equal(joints, JOINTS)


BAD = {
    "no table": (lambda: plot.sweep(3, "x", "y"), "no table"),
    "no column": (lambda: plot.sweep(ROWS, "x", "score"), "no column 'x'"),
    "no rows": (lambda: plot.sweep({"x": [], "y": []}, "x", "y"), "no rows"),
    "no numbers": (lambda: plot.sweep(ROWS, "noise", "method"), "numbers"),
    "zero on a log scale": (lambda: plot.sweep({"x": [0], "y": [1]}, "x", "y", log=True), "zeros"),
    "lengths apart": (lambda: plot.error_against_length([1, 2], [1.0]), "2 lengths"),
    "zero errors": (lambda: plot.error_against_length([1, 2], [1.0, 0.0]), "positive"),
    "bounds apart": (lambda: plot.error_against_bound([1.0], [1.0, 2.0]), "bounds"),
    "no methods": (lambda: plot.methods({}), "by name"),
    "positions in space": (lambda: plot.track(Z[:, :3], PATH), "x and y"),
    "positions apart": (lambda: plot.track(Z[1:, :2], PATH), "one row for each step"),
    "no such plane": (lambda: plot.skeletons(JOINTS, BONES, PATH, plane=(0, 3)), "plane"),
    "no such joint": (lambda: plot.skeletons(JOINTS, [(0, 4)], PATH), "from 0 to 3"),
    "no pairs": (lambda: plot.skeletons(JOINTS, [], PATH), "pairs"),
    "no snapshots": (lambda: plot.skeletons(JOINTS, BONES, PATH, count=0), "at least one"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_leaves_no_figure(name):
    call, words = BAD[name]
    with pytest.raises(MechtraceError, match=re.escape(words)):
        call()
    assert not plt.get_fignums()
