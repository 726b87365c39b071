"""The plan of the reproduction: printed numbers, sources, jobs and the copied rows of benches."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lab_tools import load_tool

from mechtrace_lab import comparison as contest
from mechtrace_lab.datasets.recordings import VARIABLE
from mechtrace_lab.reproduction import (
    answers,
    figures,
    side_by_side,
    tables,
)
from mechtrace_lab.reproduction.compared_methods import ComparedMethod
from mechtrace_lab.reproduction.entries import Entry, FigurePath, MeasureCall
from mechtrace_lab.reproduction.models import SCALES, Model
from mechtrace_lab.reproduction.plan import TABLES, measure_calls
from mechtrace_lab.reproduction.real_data import StudySource
from mechtrace_lab.reproduction.result_store import ResultStore
from mechtrace_lab.reproduction.run import jobs_for
from mechtrace_lab.reproduction.tables import Figure

pytestmark = pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")


def test_models_that_are_equal_are_trained_once():
    wanted = [source for source in measure_calls(list(TABLES)) if isinstance(source, Model)]
    same = [model for model in wanted if dict(model.options).get("edge") == 0.5]
    assert len([model for model in same if dict(model.options)["noise"] == 0.1]) == 1
    names = [model.name for model in wanted]
    assert len(names) == len(set(names))


def test_printed_numbers_are_complete():
    assert len(tables.SCALING) == len(tables.SCALING_W) == 9
    assert all(len(row) == len(tables.SWEEP_COLUMNS) for row in tables.NOISE.values())
    assert tables.NOISE[0.1] == tables.PERTURBATION[0.5]
    assert tables.VEHICLE["TRACE"] > max(v for k, v in tables.VEHICLE.items() if k != "TRACE")
    assert tables.GAIT_SHOWN["TRACE"].value > tables.GAIT.value  # it shows a good one
    # the two tables of the paper that print the same figures agree
    assert [row[1].value for row in tables.SAMPLES.values()] == [0.986, 0.968, 0.960, 0.688]
    assert all(
        abs(row[4].value / (row[5].value + row[6].value) - row[7].value) < 0.02
        for row in [*tables.NOISE.values(), *tables.PERTURBATION.values()]
    )


def entry(printed, better="more"):
    where = (
        FigurePath.in_model("default", Model("m"), MeasureCall("latents"), "default", "pooled"),
    )
    return Entry("row", "column", printed, where, better)


@pytest.mark.parametrize(
    ("printed", "better", "mine", "reached"),
    [
        (Figure(0.9), "more", 0.95, True),
        (Figure(0.9), "more", 0.8999, True),  # as printed, with three digits
        (Figure(0.9), "more", 0.89, False),
        (Figure(0.1), "less", 0.05, True),
        (Figure(0.1), "less", 0.2, False),
        (Figure(0.1), "", 0.2, None),
        (None, "more", 0.2, None),
    ],
)
def test_who_reaches_the_paper(printed, better, mine, reached):
    line = side_by_side.Measured(entry(printed, better), {"default": (Figure(mine), 3)})
    assert line.reached is reached
    assert ("*" in side_by_side.text([line])) is (reached is False)


def test_calibration_uses_rows_where_a_regime_is_pure():
    truth = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1.0]])
    assert sorted(answers.pure_rows(truth, 0)) == [0, 2, 4]
    assert sorted(answers.pure_rows(truth, 1)) == [2, 4]


def compared(command, monkeypatch, tmp_path, *words):
    """The cells that `mechtrace compare` would run."""
    jobs = []
    monkeypatch.setattr(contest, "collect", lambda cells, *_, **options: jobs.extend(cells))
    command("compare", "--world", "paper", *words, "--device", "cpu", "--out", tmp_path / "c")
    return {job.stem for job in jobs}


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("paper", ["--series", 2000, "--transitions", 24_000_000]),
        ("quick", ["--series", 400, "--transitions", 1_000_000]),
    ],
)
def test_methods_are_the_cells_of_the_comparison(command, monkeypatch, tmp_path, scale, words):
    jobs = jobs_for(["methods"], scale=scale, seeds=2, device="cpu")
    names = sorted({job.method for job in jobs} - {"oracle"})
    assert names == sorted([*tables.METHODS, "algorithm1", "ar-hmm"])
    words += ["--seeds", 2]
    # LEAP at the paper's scale has a batch of its own
    own = {"leap": ["--set", "batch=128"]} if scale == "paper" else {}
    rest = [name for name in names if name not in own]
    found = compared(command, monkeypatch, tmp_path, *words, "--methods", ",".join(rest))
    for name, more in own.items():
        found |= compared(command, monkeypatch, tmp_path, *words, "--methods", name, *more)
    oracle_of_leap = {stem for stem in found if stem.startswith("oracle")}
    found -= oracle_of_leap - {job.stem for job in jobs}
    assert {job.stem for job in jobs} == found


def test_a_cell_of_another_device_is_as_good(tmp_path):
    here, there = (ComparedMethod("oracle").job(SCALES["paper"], 0, x) for x in ("cpu", "cuda"))
    assert here.stem != there.stem
    assert here.stored_row(tmp_path) is None
    there.store(tmp_path, there.row("finished", figures={"pooled": 1}))
    assert here.stored_row(tmp_path)["figures"] == {"pooled": 1}
    here.store(tmp_path, here.row("finished", figures={"pooled": 2}))  # its own counts more
    assert [job.stored_row(tmp_path)["figures"]["pooled"] for job in (here, there)] == [2, 1]


def test_compared_rows_are_kept_where_they_agree(tmp_path):
    module = load_tool("keep_compared_rows")
    jobs = [
        ComparedMethod(name).job(SCALES["paper"], 0, "cuda") for name in ("pcl", "leap", "ivae")
    ]
    rows = [job.row("finished", figures={"mcc": 0.5}) for job in jobs]
    rows[1]["settings"] = rows[1]["settings"] | {"batch": 64}  # another budget of steps
    results = tmp_path / "compare-paper-2000-h200.json"  # where iVAE's recipe was another one
    results.write_text(json.dumps({"rows": rows}))
    assert module.copy_rows(tmp_path, tmp_path) == [jobs[0].stem]
    assert [job.stored_row(tmp_path) is not None for job in jobs] == [True, False, False]
    results.rename(tmp_path / "compare-paper-2000-x.json")
    assert module.copy_rows(tmp_path, tmp_path) == [jobs[0].stem, jobs[2].stem]


RECORDED = ("gait", "vehicles", "frames")


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("there", [None, "empty"])
def test_without_data_a_table_is_skipped_in_a_sentence(
    command, monkeypatch, tmp_path, name, there
):
    monkeypatch.delenv(VARIABLE, raising=False)
    if there:
        monkeypatch.setenv(VARIABLE, str(tmp_path / there))
    code, said, err = command("reproduce", name, "--scale", "smoke", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    (skipped,) = [line for line in said.splitlines() if ": skipped: " in line]
    reason = skipped.partition(": skipped: ")[2]
    assert "`mechtrace datasets " in reason
    assert f"Not measured: {reason}" in said
    assert not list((tmp_path / "out" / "smoke").iterdir())


def test_missing_frames_are_no_failure_either(monkeypatch, tmp_path):
    (tmp_path / "uavdt").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    job = StudySource("frames", "trails").job(SCALES["smoke"], 0, "cpu")
    row = job.run(tmp_path)
    assert row["status"] == "skipped"
    assert row["reason"] == job.missing()
    assert "S1606_half: there are no frames" in row["reason"]
    assert "`mechtrace datasets uavdt`" in row["reason"]


def test_the_device_is_no_part_of_a_study():
    jobs = [
        StudySource("cartpole", "pictures").job(SCALES["paper"], 1, x) for x in ("cpu", "cuda")
    ]
    assert jobs[0].stem == jobs[1].stem
    assert jobs[0].about()["size"]["series"] == 1000


def bench_files(folder):
    """Files of bench commands, of the right size, with figures that are easy to know again."""
    from mechtrace.estimator import Trace
    from mechtrace_lab.reproduction import gait

    def about(settings):
        return {"settings": Trace(**settings).get_params(), "versions": {"numpy": "2"}}

    rows = [
        {"method": method, "kind": "change", "pearson": 0.5 + 0.1 * seed, "mae": None,
         "run_share": 0.5, "walking": 0.1, "walking_rows": 3, "running": 0.9, "running_rows": 3,
         "features": kind, "seed": seed}
        for kind in ("paper", "legs") for seed in (0, 1) for method in gait.METHODS
        if seed == 0 or method != gait.NCTRL
    ]  # fmt: skip
    made = {"gait-cmu": about({}) | {"rows": rows, "rate": 30.0, "seeds": 2}}
    cart = {
        "mcc": 0.9,
        "mcc_rank": 0.9,
        "mcc_before": 0.8,
        "r2": {},
        "unexplained": 0.0,
        "seed": 4,
    }
    cart["recovery"] = [{"active": count, "pooled": 0.7} for count in (3, 5)]
    made["cartpole-1000"] = about({"latents": 4, "lags": 2, "steps": 8000}) | {
        "series_per_regime": 1000, "size": 64, "length": 100, "trials": 200, "rows": [cart],
        "machine": "abacus",
    }  # fmt: skip
    made["cartpole-100"] = made["cartpole-1000"] | {"series_per_regime": 100}  # too small
    for name, result in made.items():
        (folder / f"{name}.json").write_text(json.dumps(result))
    return made


def test_rows_of_bench_commands_are_kept_where_they_agree(tmp_path):
    module = load_tool("keep_bench_rows")
    results = tmp_path / "results"
    results.mkdir()
    made = bench_files(results)
    taken = module.copy_rows(results, tmp_path)
    assert [stem.rpartition("-")[0] for stem in taken] == [
        "gait-paper-seed0", "gait-paper-seed1", "gait-legs-seed0", "gait-legs-seed1",
        "cartpole-pictures-seed4",
    ]  # fmt: skip
    job = StudySource("gait", "legs").job(SCALES["paper"], 1, "cpu")
    row = job.stored_row(tmp_path)
    assert row["figures"]["lda"]["pearson"] == pytest.approx(0.6)
    assert row["figures"]["lda"]["pure_walk"] is None
    assert (row["seconds"], row["kept_from"]) == (None, "gait-cmu.json")
    row = StudySource("cartpole", "pictures").job(SCALES["paper"], 4, "cuda").stored_row(tmp_path)
    assert (row["figures"]["recovery"]["5"]["pooled"], row["machine"]) == (0.7, "abacus")
    made["gait-cmu"]["settings"]["steps"] = 1
    (results / "gait-cmu.json").write_text(json.dumps(made["gait-cmu"]))
    assert module.copy_rows(results, tmp_path) == taken[-1:]


@pytest.mark.parametrize("picture", figures.PICTURES, ids=lambda picture: picture.name)
def test_without_rows_there_is_no_figure(tmp_path, picture):
    assert picture.draw(ResultStore(tmp_path, "smoke", 1)) is None
    assert list(figures.write(list(TABLES), tmp_path, scale="smoke", seeds=1)) == []
    assert not list(tmp_path.iterdir())


@pytest.fixture
def tool(monkeypatch):
    module = load_tool("paper_tables")
    monkeypatch.setattr(module, "LOOKED", ("paper", "smoke"))
    return module


def test_the_page_without_rows_says_so(tool, tmp_path):
    (tmp_path / "images").mkdir()
    stale = tmp_path / "images" / "paper-theory.png"
    stale.write_bytes(b"")
    assert tool.draw(tmp_path / "rows", tmp_path / "images") == []
    assert not stale.exists()
    (page,) = tool.outputs(tmp_path / "rows", tmp_path).values()
    assert "Nothing is measured yet" in page
    assert "##" not in page


def test_every_table_says_what_it_asks():
    assert all(table.note.endswith((".", "?")) for table in TABLES.values())


def test_command(command, tmp_path):
    code, said, _ = command("reproduce", "list", "--json", tmp_path / "list.json")
    assert code == 0
    assert set(json.loads((tmp_path / "list.json").read_text())["tables"]) == set(TABLES)
    assert all(name in said for name in TABLES)
    code, _, err = command("reproduce", "nonsense")
    assert (code, "there is no table 'nonsense'" in err) == (2, True)
    for more in ([], ["--show"]):
        code, _, err = command("reproduce", "samples", "--scale", "huge", *more)
        assert (code, "there is no scale 'huge'" in err) == (2, True)
    (tmp_path / "file").write_text("")
    code, _, err = command("reproduce", "samples", "--out", tmp_path / "file")
    assert (code, "this is a file" in err) == (2, True)


def test_scales_differ_in_size_only():
    assert SCALES["paper"].recordings(40_000) == 40_000
    assert SCALES["quick"].recordings(40_000) == 2000
    assert SCALES["smoke"].recordings(400) == 20
