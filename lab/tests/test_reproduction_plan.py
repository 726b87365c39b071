"""The paper's tables: the printed numbers, the plan, and a small run of every table."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot

from mechtrace.baselines import contest
from mechtrace.datasets.recordings import VARIABLE
from mechtrace.paper import compare, figures, measures, tables, yardsticks
from mechtrace.paper.contestants import Contestant
from mechtrace.paper.entries import Ask, Entry, Place
from mechtrace.paper.kept import Kept
from mechtrace.paper.models import SCALES, Model
from mechtrace.paper.plan import TABLES, asked
from mechtrace.paper.run import job_of, jobs_for, reproduce
from mechtrace.paper.studied import Studied
from mechtrace.paper.tables import Figure
from mechtrace.paper.theorems import Theorems

pytestmark = pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Every source of every table, trained a little, in this process."""
    for package in ("sklearn", "hmmlearn", "cv2"):
        pytest.importorskip(package)
    from small_data import write_data

    folder, data = (tmp_path_factory.mktemp(name) for name in ("paper", "data"))
    write_data(data)
    (folder / "smoke").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(data))
        patch.setattr(yardsticks, "SHOWN", 2000)  # transitions for NCTRL
        for job in jobs_for(list(TABLES), scale="smoke", seeds=1, device="cpu"):
            job.keep(folder / "smoke", job.run(folder / "smoke"))
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_of_a_table_is_measured(kept, name):
    lines = compare.measured(name, kept, scale="smoke", seeds=1)
    assert [line.entry for line in lines] == list(TABLES[name].entries)
    for line in lines:
        wanted = {place.who for place in line.entry.where}
        assert set(line.found) == wanted, (line.entry.row, line.entry.column)
        assert all(np.isfinite(figure.value) for figure, _ in line.found.values())
    shown = compare.text(lines)
    assert len(shown.splitlines()) == 1 + len(lines)
    assert compare.markdown(lines).count("\n") == 1 + len(lines)


def test_a_later_question_goes_to_the_model_of_before(kept, monkeypatch):
    (job,) = [
        job
        for job in jobs_for(["samples"], scale="smoke", seeds=1, device="cpu")
        if job.model.name == "k5-of-400"
    ]
    folder = kept / "smoke"
    assert job.kept(folder) is not None
    more = type(job)(
        job.model,
        job.scale,
        job.seed,
        (*job.asks, Ask("convexity", (("active", (0, 1)), ("recordings", 2)))),
        "cpu",
    )
    assert more.stem == job.stem
    assert more.kept(folder) is None
    before = json.loads((folder / f"{job.stem}.json").read_text())
    monkeypatch.setattr(Model, "train", None)  # nothing may be trained again
    row = more.run(folder)
    assert len(row["measures"]) == len(before["measures"]) + 1
    assert {k: row["measures"][k] for k in before["measures"]} == before["measures"]
    assert row["timings"]["fit"] == before["timings"]["fit"]
    assert len(row["timings"]) == len(before["timings"]) + 1


def test_models_that_are_equal_are_trained_once():
    wanted = [source for source in asked(list(TABLES)) if isinstance(source, Model)]
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
    where = (Place.in_model("default", Model("m"), Ask("latents"), "default", "pooled"),)
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
    line = compare.Measured(entry(printed, better), {"default": (Figure(mine), 3)})
    assert line.reached is reached
    assert ("*" in compare.text([line])) is (reached is False)


def test_calibration_uses_rows_where_a_regime_is_pure():
    truth = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1.0]])
    assert sorted(measures._endpoints(truth, 0)) == [0, 2, 4]
    assert sorted(measures._endpoints(truth, 1)) == [2, 4]


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
    here, there = (Contestant("oracle").job(SCALES["paper"], 0, x) for x in ("cpu", "cuda"))
    assert here.stem != there.stem
    assert here.kept(tmp_path) is None
    there.keep(tmp_path, there.row("finished", figures={"pooled": 1}))
    assert here.kept(tmp_path)["figures"] == {"pooled": 1}
    here.keep(tmp_path, here.row("finished", figures={"pooled": 2}))  # its own counts more
    assert [job.kept(tmp_path)["figures"]["pooled"] for job in (here, there)] == [2, 1]


def test_compared_rows_are_kept_where_they_agree(tmp_path):
    tool = Path(__file__).parent.parent / "tools" / "keep_compared_rows.py"
    spec = importlib.util.spec_from_file_location("keep_compared_rows", tool)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    jobs = [Contestant(name).job(SCALES["paper"], 0, "cuda") for name in ("pcl", "leap", "ivae")]
    rows = [job.row("finished", figures={"mcc": 0.5}) for job in jobs]
    rows[1]["settings"] = rows[1]["settings"] | {"batch": 64}  # another budget of steps
    results = tmp_path / "compare-paper-2000-h200.json"  # where iVAE's recipe was another one
    results.write_text(json.dumps({"rows": rows}))
    assert module.keep(tmp_path, tmp_path) == [jobs[0].stem]
    assert [job.kept(tmp_path) is not None for job in jobs] == [True, False, False]
    results.rename(tmp_path / "compare-paper-2000-x.json")
    assert module.keep(tmp_path, tmp_path) == [jobs[0].stem, jobs[2].stem]


def test_the_best_of_the_others_is_named(kept):
    lines = compare.measured("methods", kept, scale="smoke", seeds=1)
    others = [line for line in lines if "other" in line.found]
    assert {line.reached for line in others} == {None}
    best = max((x for x in others if x.entry.column == "MCC"), key=lambda x: x.found["other"])
    (said,) = [words for words in compare.leads(lines) if words.startswith("MCC: ")]
    assert said.endswith(f"{compare.shown(best.found['other'][0])} ({best.entry.row})")
    assert "other methods" in compare.text(lines).splitlines()[0]
    theorems = compare.measured("theorems", kept, scale="smoke", seeds=1)
    assert "other methods" not in compare.text(theorems)
    assert compare.leads(theorems) == []


def test_theorems_need_no_training(kept, tmp_path):
    job = job_of(Theorems(), SCALES["smoke"], 0)
    row = job.kept(kept / "smoke")
    again = json.loads(json.dumps(job.run(tmp_path)))
    assert again | {"seconds": row["seconds"]} == row
    assert not list(tmp_path.iterdir())
    assert all(one["within"] == 1 for one in row["worlds"].values())
    assert set(row["lengths"]) == {"50", "100", "200", "400", "800", "1600"}
    assert row["rates"]["gcv"] < row["rates"]["rule"] < 0
    lines = compare.measured("theorems", kept, scale="smoke", seeds=1)
    rates = [line for line in lines if line.entry.row == "MSE against T"]
    assert [line.entry.printed.value for line in rates] == [-2 / 3] * 2


# -- pictures and recordings --------------------------------------------------------------------

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
    job = Studied("frames", "trails").job(SCALES["smoke"], 0, "cpu")
    row = job.run(tmp_path)
    assert row["status"] == "skipped"
    assert row["reason"] == job.missing()
    assert "S1606_half: there are no frames" in row["reason"]
    assert "`mechtrace datasets uavdt`" in row["reason"]


def test_what_was_kept_outlives_the_data(kept, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    job = Studied("gait", "legs").job(SCALES["smoke"], 0, "cpu")
    before = job.kept(kept / "smoke")
    for fresh, status in ((False, "finished"), (True, "skipped")):
        rows = reproduce(
            ["gait"], kept, scale="smoke", seeds=1, fresh=fresh, say=lambda text: None, live=False
        )
        assert {row["status"] for row in rows} == {status}
    assert job.kept(kept / "smoke") == before
    assert compare.absent("gait", kept, scale="smoke", seeds=1) == []


def test_the_device_is_no_part_of_a_study():
    jobs = [Studied("cartpole", "pictures").job(SCALES["paper"], 1, x) for x in ("cpu", "cuda")]
    assert jobs[0].stem == jobs[1].stem
    assert jobs[0].about()["size"]["series"] == 1000


def bench_files(folder):
    """Files of bench commands, of the right size, with figures that are easy to know again."""
    from mechtrace.estimator import Trace
    from mechtrace.paper import gait

    def about(settings):
        return {"settings": Trace(**settings).get_params(), "versions": {"numpy": "2"}}

    rows = [
        {"method": method, "kind": "change", "pearson": 0.5 + 0.1 * seed, "mae": None,
         "run_share": 0.5, "walking": 0.1, "walking_rows": 3, "running": 0.9, "running_rows": 3,
         "features": kind, "seed": seed}
        for kind in ("paper", "legs") for seed in (0, 1) for method in gait.METHODS
        if seed == 0 or method != gait.NCTRL
    ]  # fmt: skip
    made = {"gait-cmu": about(gait.SETTINGS) | {"rows": rows, "rate": 30.0, "seeds": 2}}
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
    tool = Path(__file__).parent.parent / "tools" / "keep_bench_rows.py"
    spec = importlib.util.spec_from_file_location("keep_bench_rows", tool)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = tmp_path / "results"
    results.mkdir()
    made = bench_files(results)
    taken = module.keep(results, tmp_path)
    assert [stem.rpartition("-")[0] for stem in taken] == [
        "gait-paper-seed0", "gait-paper-seed1", "gait-legs-seed0", "gait-legs-seed1",
        "cartpole-pictures-seed4",
    ]  # fmt: skip
    job = Studied("gait", "legs").job(SCALES["paper"], 1, "cpu")
    row = job.kept(tmp_path)
    assert row["figures"]["lda"]["pearson"] == pytest.approx(0.6)
    assert row["figures"]["lda"]["pure_walk"] is None
    assert (row["seconds"], row["kept_from"]) == (None, "gait-cmu.json")
    row = Studied("cartpole", "pictures").job(SCALES["paper"], 4, "cuda").kept(tmp_path)
    assert (row["figures"]["recovery"]["5"]["pooled"], row["machine"]) == (0.7, "abacus")
    made["gait-cmu"]["settings"]["steps"] = 1
    (results / "gait-cmu.json").write_text(json.dumps(made["gait-cmu"]))
    assert module.keep(results, tmp_path) == taken[-1:]


# -- figures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("picture", figures.PICTURES, ids=lambda picture: picture.name)
def test_every_figure_is_drawn_from_what_is_kept(kept, picture):
    figure = picture.draw(Kept(kept, "smoke", 1))
    figure.draw_without_rendering()
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    assert all(ax.has_data() for ax in figure.axes)
    pyplot.close(figure)


@pytest.mark.parametrize("picture", figures.PICTURES, ids=lambda picture: picture.name)
def test_without_rows_there_is_no_figure(tmp_path, picture):
    assert picture.draw(Kept(tmp_path, "smoke", 1)) is None
    assert list(figures.write(list(TABLES), tmp_path, scale="smoke", seeds=1)) == []
    assert not list(tmp_path.iterdir())


def test_a_figure_shows_what_was_found_and_what_is_printed(kept):
    folder = Kept(kept, "smoke", 1)
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
        if path.name.startswith(("k5-seed", "noise-0.0", "k50-d8-seed")):
            (tmp_path / "smoke" / path.name).write_text(json.dumps(row))
    written = figures.write(list(TABLES), tmp_path, scale="smoke", seeds=1)
    names = {path.stem for path in written if path.read_bytes().startswith(b"\x89PNG")}
    assert not pyplot.get_fignums()
    assert names == {
        "theory", "trajectory", "calibration", "window", "capacity", "samples", "beyond",
    }  # fmt: skip


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
    path = Path(__file__).parent.parent / "tools" / "paper_tables.py"
    spec = importlib.util.spec_from_file_location("paper_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LOOKED", ("paper", "smoke"))
    return module


def test_the_page_has_every_table_with_its_question_and_its_command(kept, tool, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for picture in figures.PICTURES:
        (images / f"paper-{picture.name}.png").write_bytes(b"")
    (page,) = tool.outputs(kept, tmp_path).values()
    for name, table in TABLES.items():
        assert f"## {table.title}" in page
        assert table.note in page
        assert f"`mechtrace reproduce {name} --scale smoke --seeds 1`" in page
    for picture in figures.PICTURES:
        assert page.count(f"(images/paper-{picture.name}.png)") == 1
    below = page.count(" * |")
    assert below == page.count(" (paper ") > 0
    lines = [line for name in TABLES for line in Kept(kept, "smoke", 1).lines(name)]
    judged = [line for line in lines if line.reached is not None and line.entry.better == "more"]
    reached = sum(line.reached for line in judged)
    assert f"Of {len(judged)} cells with a printed correlation or MCC" in page
    assert f"our default reaches {reached}.**" in page
    assert page.count("Short of the paper's figure") > 0


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


# -- the command --------------------------------------------------------------------------------


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


def test_scales_differ_in_size_only():
    assert SCALES["paper"].recordings(40_000) == 40_000
    assert SCALES["quick"].recordings(40_000) == 2000
    assert SCALES["smoke"].recordings(400) == 20
