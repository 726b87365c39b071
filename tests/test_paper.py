"""The paper's tables: the printed numbers, the plan, and a small run of every table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mechtrace.paper import compare, measures, tables
from mechtrace.paper.models import SCALES, Model
from mechtrace.paper.plan import TABLES, Ask, Entry, asked
from mechtrace.paper.run import jobs_for
from mechtrace.paper.tables import Figure

pytestmark = pytest.mark.filterwarnings("ignore::mechtrace.errors.FitWarning")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Every model of every table, trained a little, in this process."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "smoke").mkdir()
    for job in jobs_for(list(TABLES), scale="smoke", seeds=1, device="cpu"):
        job.keep(folder / "smoke", job.run(folder / "smoke"))
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_of_a_table_is_measured(kept, name):
    lines = compare.measured(name, kept, scale="smoke", seeds=1)
    assert [line.entry for line in lines] == list(TABLES[name].entries)
    for line in lines:
        wanted = {who for who, _ in line.entry.where}
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
    assert row["train_seconds"] == before["train_seconds"]


def test_models_that_are_equal_are_trained_once():
    wanted = asked(list(TABLES))
    same = [model for model in wanted if dict(model.options).get("edge") == 0.5]
    assert len([model for model in same if dict(model.options)["noise"] == 0.1]) == 1
    names = [model.name for model in wanted]
    assert len(names) == len(set(names))


def test_printed_numbers_are_complete():
    assert len(tables.SCALING) == len(tables.SCALING_W) == 9
    assert all(len(row) == len(tables.SWEEP_COLUMNS) for row in tables.NOISE.values())
    assert tables.NOISE[0.1] == tables.PERTURBATION[0.5]
    # the two tables of the paper that print the same figures agree
    assert [row[1].value for row in tables.SAMPLES.values()] == [0.986, 0.968, 0.960, 0.688]
    assert all(
        abs(row[4].value / (row[5].value + row[6].value) - row[7].value) < 0.02
        for row in [*tables.NOISE.values(), *tables.PERTURBATION.values()]
    )


def entry(printed, better="more"):
    where = (("default", ("default", "pooled")),)
    return Entry("row", "column", printed, Model("m"), Ask("latents"), where, better)


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


def test_command(command, tmp_path):
    code, said, _ = command("reproduce", "list", "--json", tmp_path / "list.json")
    assert code == 0
    assert set(json.loads((tmp_path / "list.json").read_text())["tables"]) == set(TABLES)
    assert all(name in said for name in TABLES)
    code, _, err = command("reproduce", "nonsense")
    assert (code, "there is no table 'nonsense'" in err) == (2, True)
    code, _, err = command("reproduce", "samples", "--scale", "huge")
    assert (code, "there is no scale 'huge'" in err) == (2, True)
    (tmp_path / "file").write_text("")
    code, _, err = command("reproduce", "samples", "--out", tmp_path / "file")
    assert (code, "this is a file" in err) == (2, True)


def test_command_shows_what_is_kept(command, kept, tmp_path):
    words = ["reproduce", "simplex", "--scale", "smoke", "--seeds", 1, "--out", kept]
    code, said, _ = command(*words, "--show", "--json", tmp_path / "simplex.json")
    assert code == 0
    assert "Simplex against free weights (smoke, 1 seeds)" in said
    rows = json.loads((tmp_path / "simplex.json").read_text())["simplex"]
    assert rows[0]["printed"] == {"value": 0.956, "spread": None}
    assert set(rows[0]["found"]) == {"algorithm1", "default"}
    code, said, _ = command(*words)  # nothing is left to compute
    assert (code, "1 of 1 results are kept from before" in said) == (0, True)


def test_scales_differ_in_size_only():
    assert SCALES["paper"].recordings(40_000) == 40_000
    assert SCALES["quick"].recordings(40_000) == 2000
    assert SCALES["smoke"].recordings(400) == 20
