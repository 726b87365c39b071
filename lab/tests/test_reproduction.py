"""The paper's tables: a small run of every table, its figures, page and command."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from lab_tools import load_tool
from matplotlib import pyplot

from mechtrace_lab.datasets.recordings import VARIABLE
from mechtrace_lab.reproduction import (
    figures,
    reference_methods,
    side_by_side,
    tables,
)
from mechtrace_lab.reproduction.entries import MeasureCall
from mechtrace_lab.reproduction.models import SCALES, Model
from mechtrace_lab.reproduction.plan import TABLES
from mechtrace_lab.reproduction.real_data import StudySource
from mechtrace_lab.reproduction.result_store import ResultStore
from mechtrace_lab.reproduction.run import job_of, jobs_for, reproduce
from mechtrace_lab.reproduction.theorems import Theorems

pytestmark = pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")


#: Tables of many models, or of studies that have tests of their own; `make test-slow` runs them.
SLOW = {"methods", "beyond", "impurity", "misspecified", "assumption", "gait", "vehicles"}


def marked(names, tables):
    """Parameters, slow where one of the tables that they need is."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] * bool(SLOW & set(needed)))
        for name, needed in zip(names, tables, strict=True)
    ]


@pytest.fixture(scope="module")
def kept(tmp_path_factory, request):
    """Every source of every table that a test asks for, trained a little, in this process."""
    for package in ("sklearn", "hmmlearn", "cv2"):
        pytest.importorskip(package)
    from small_data import write_data

    folder, data = (tmp_path_factory.mktemp(name) for name in ("paper", "data"))
    write_data(data)
    (folder / "smoke").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(data))
        patch.setattr(reference_methods, "NCTRL_TRANSITIONS", 2000)  # transitions for NCTRL
        slow = any(item.get_closest_marker("slow") for item in request.session.items)
        tables = [name for name in TABLES if slow or name not in SLOW]
        for job in jobs_for(tables, scale="smoke", seeds=1, device="cpu"):
            job.store(folder / "smoke", job.run(folder / "smoke"))
    return folder


@pytest.mark.parametrize("name", marked(TABLES, ([name] for name in TABLES)))
def test_every_cell_of_a_table_is_measured(kept, name):
    lines = side_by_side.measured(name, kept, scale="smoke", seeds=1)
    assert [line.entry for line in lines] == list(TABLES[name].entries)
    for line in lines:
        wanted = {place.who for place in line.entry.where}
        assert set(line.found) == wanted, (line.entry.row, line.entry.column)
        assert all(np.isfinite(figure.value) for figure, _ in line.found.values())
    shown = side_by_side.text(lines)
    assert len(shown.splitlines()) == 1 + len(lines)
    assert side_by_side.markdown(lines).count("\n") == 1 + len(lines)


def test_a_later_question_goes_to_the_model_of_before(kept, monkeypatch):
    (job,) = [
        job
        for job in jobs_for(["samples"], scale="smoke", seeds=1, device="cpu")
        if job.model.name == "k5-of-400"
    ]
    folder = kept / "smoke"
    assert job.stored_row(folder) is not None
    more = type(job)(
        job.model,
        job.scale,
        job.seed,
        (*job.calls, MeasureCall("convexity", (("active", (0, 1)), ("recordings", 2)))),
        "cpu",
    )
    assert more.stem == job.stem
    assert more.stored_row(folder) is None
    before = json.loads((folder / f"{job.stem}.json").read_text())
    monkeypatch.setattr(Model, "train", None)  # nothing may be trained again
    row = more.run(folder)
    assert len(row["measures"]) == len(before["measures"]) + 1
    assert {k: row["measures"][k] for k in before["measures"]} == before["measures"]
    assert row["timings"]["fit"] == before["timings"]["fit"]
    assert len(row["timings"]) == len(before["timings"]) + 1


@pytest.mark.slow
def test_the_best_of_the_others_is_named(kept):
    lines = side_by_side.measured("methods", kept, scale="smoke", seeds=1)
    others = [line for line in lines if "other" in line.found]
    assert {line.reached for line in others} == {None}
    best = max((x for x in others if x.entry.column == "MCC"), key=lambda x: x.found["other"])
    (said,) = [words for words in side_by_side.leads(lines) if words.startswith("MCC: ")]
    assert said.endswith(f"{side_by_side.shown(best.found['other'][0])} ({best.entry.row})")
    assert "other methods" in side_by_side.text(lines).splitlines()[0]


def test_no_other_method_is_named_where_there_is_none(kept):
    theorems = side_by_side.measured("theorems", kept, scale="smoke", seeds=1)
    assert "other methods" not in side_by_side.text(theorems)
    assert side_by_side.leads(theorems) == []


def test_theorems_need_no_training(kept, tmp_path):
    job = job_of(Theorems(), SCALES["smoke"], 0)
    row = job.stored_row(kept / "smoke")
    again = json.loads(json.dumps(job.run(tmp_path)))
    assert again | {"seconds": row["seconds"]} == row
    assert not list(tmp_path.iterdir())
    assert all(one["within"] == 1 for one in row["worlds"].values())
    assert set(row["lengths"]) == {"50", "100", "200", "400", "800", "1600"}
    assert row["rates"]["gcv"] < row["rates"]["rule"] < 0
    lines = side_by_side.measured("theorems", kept, scale="smoke", seeds=1)
    rates = [line for line in lines if line.entry.row == "MSE against T"]
    assert [line.entry.printed.value for line in rates] == [-2 / 3] * 2


def test_what_was_kept_outlives_the_data(kept, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    job = StudySource("frames", "trails").job(SCALES["smoke"], 0, "cpu")
    before = job.stored_row(kept / "smoke")
    for fresh, status in ((False, "finished"), (True, "skipped")):
        rows = reproduce(["frames"], kept, scale="smoke", seeds=1, fresh=fresh, live=False)
        assert {row["status"] for row in rows} == {status}
    assert job.stored_row(kept / "smoke") == before
    assert side_by_side.absent("frames", kept, scale="smoke", seeds=1) == []


@pytest.mark.parametrize(
    "picture",
    marked(figures.PICTURES, [picture.tables for picture in figures.PICTURES]),
    ids=lambda picture: picture.name,
)
def test_every_figure_is_drawn_from_what_is_kept(kept, picture):
    figure = picture.draw(ResultStore(kept, "smoke", 1))
    figure.draw_without_rendering()
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    assert all(ax.has_data() for ax in figure.axes)
    pyplot.close(figure)


def test_a_figure_shows_what_was_found_and_what_is_printed(kept):
    folder = ResultStore(kept, "smoke", 1)
    figure = next(p for p in figures.PICTURES if p.name == "window").draw(folder)
    lines = {one.get_label(): one for one in figure.axes[0].get_lines()}
    found = folder.cells("window")["w = 0", "corr"].found["default"][0].value
    assert lines["mechtrace"].get_ydata()[0] == found
    points = {one.get_label(): one for one in figure.axes[0].containers}
    printed = [corr.value for corr, _ in tables.WINDOW.values()]
    assert points["printed in the paper"].lines[0].get_ydata().tolist() == printed
    pyplot.close(figure)


def test_some_of_the_rows_are_enough_and_old_ones_do_no_harm(kept, tmp_path):
    (tmp_path / "smoke").mkdir()
    for path in (kept / "smoke").glob("*.json"):
        row = json.loads(path.read_text())
        for key, answer in row.get("measures", {}).items():
            if key.startswith("two_stages"):
                del answer["curves"]  # as they were before curves were kept
            if key.startswith("bounds") and path.name.startswith("noise-0.05"):
                answer["bound"] = None  # not finite
        if path.name.startswith(("k5-seed", "noise-0.0")):
            (tmp_path / "smoke" / path.name).write_text(json.dumps(row))
    written = figures.write(list(TABLES), tmp_path, scale="smoke", seeds=1)
    names = {path.stem for path in written if path.read_bytes().startswith(b"\x89PNG")}
    assert not pyplot.get_fignums()
    assert names == {"theory", "trajectory", "calibration", "window", "capacity", "samples"}


def test_curves_are_kept_short(kept):
    path = next((kept / "smoke").glob("k5-seed*.json"))
    answers = json.loads(path.read_text())["measures"]
    curves = [a for key, a in answers.items() if key.startswith("curves")]
    curves += [a["curves"] for key, a in answers.items() if key.startswith("two_stages")]
    for answer in curves:
        for name in ("truth", "algorithm1", "default"):
            values = np.array(answer[name], float)
            assert np.array_equal(values, values.round(4), equal_nan=True)


@pytest.fixture
def tool(monkeypatch):
    module = load_tool("paper_tables")
    monkeypatch.setattr(module, "LOOKED", ("paper", "smoke"))
    return module


def test_the_page_has_every_table_with_its_question_and_its_command(kept, tool, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for picture in figures.PICTURES:
        (images / f"paper-{picture.name}.png").write_bytes(b"")
    (page,) = tool.outputs(kept, tmp_path).values()
    missing = re.search(r"Not measured yet: (.*)\.\n", page)
    for name, table in TABLES.items():
        if not any(side_by_side.stored_rows(name, kept, scale="smoke", seeds=1).values()):
            assert name in SLOW
            assert missing is not None
            assert table.title in missing[1].split("; ")
            continue
        assert f"## {table.title}" in page
        assert table.note in page
        assert f"`mechtrace reproduce {name} --scale smoke --seeds 1`" in page
    for picture in figures.PICTURES:
        shown = not missing or not all(TABLES[name].title in missing[1] for name in picture.tables)
        assert page.count(f"(images/paper-{picture.name}.png)") == shown
    below = page.count(" * |")
    assert below == page.count(" (paper ") > 0
    lines = [line for name in TABLES for line in ResultStore(kept, "smoke", 1).lines(name)]
    judged = [line for line in lines if line.reached is not None and line.entry.better == "more"]
    reached = sum(line.reached for line in judged)
    assert f"Of {len(judged)} cells with a printed correlation or MCC" in page
    assert f"our default reaches {reached}.**" in page
    assert page.count("Short of the paper's figure") > 0


def test_command_shows_what_is_kept(command, kept, tmp_path):
    words = ["reproduce", "simplex", "--scale", "smoke", "--seeds", 1, "--out", kept]
    code, said, _ = command(*words, "--show", "--json", tmp_path / "simplex.json")
    assert code == 0
    assert "Simplex against free weights (smoke, seeds: 1)" in said
    rows = json.loads((tmp_path / "simplex.json").read_text())["simplex"]
    assert rows[0]["printed"] == {"value": 0.956, "spread": None}
    assert set(rows[0]["found"]) == {"algorithm1", "default"}
    code, said, _ = command(*words)  # nothing is left to compute
    assert (code, "1 of 1 results are kept from before" in said) == (0, True)


def test_command_draws_unless_told_not_to(command, kept):
    words = ["reproduce", "window", "simplex", "--scale", "smoke", "--seeds", 1, "--out", kept]
    path = kept / "smoke" / "window.png"
    code, said, _ = command(*words, "--show", "--no-figures")
    assert (code, "figure" in said, path.exists()) == (0, False, False)
    code, said, _ = command(*words, "--show")
    assert (code, f"figure: {path}" in said, path.exists()) == (0, True, True)
