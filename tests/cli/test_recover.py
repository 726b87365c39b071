"""What `mechtrace recover` writes beside the curves: figures, events, findings; and reports."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import mechtrace as mt


@pytest.fixture(scope="module")
def files(trained, world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recover")
    trained.save(folder / "m.mechtrace")
    world.transition("simple", series=3, seed=4).panel.to_csv(folder / "new.csv")
    return folder


def test_events_and_figures_are_written(command, files, tmp_path):
    words = ["recover", files / "m.mechtrace", files / "new.csv", "-o", tmp_path / "a.csv"]
    code, said, err = command(
        *words, "--events", tmp_path / "e.csv", "--plot", tmp_path / "c.svg",
        "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "c.svg: a figure of the curves" in said
    assert "<svg" in (tmp_path / "c.svg").read_text()
    result = json.loads((tmp_path / "r.json").read_text())
    table = pd.read_csv(tmp_path / "e.csv")
    assert list(table.columns) == [
        "series", "from", "to", "onset", "midpoint", "end", "duration",
    ]  # fmt: skip
    assert len(table) == sum(map(len, result["events"].values())) > 0
    first = next(events[0] for events in result["events"].values() if events)
    assert table["midpoint"][0] == pytest.approx(first["midpoint"])
    for found in result["diagnoses"]:
        assert found["verdict"] in ("trust", "caution", "do not trust")
        assert found["expected_error"] > 0
    code, _, err = command(*words, "--plot", tmp_path / "c.png", "--quiet")
    assert (code, err) == (0, "")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_pure_recordings_have_an_empty_table_of_events(command, files, world, tmp_path):
    pure = world.simulate(1, seed=3).panel.select(["R0"]).without_labels()
    pure.to_csv(tmp_path / "pure.csv")
    code, said, err = command(
        "recover", files / "m.mechtrace", tmp_path / "pure.csv", "-o", tmp_path / "a.csv",
        "--events", tmp_path / "e.csv", "--anchor", "0:100=R0",
    )  # fmt: skip
    assert (code, err) == (0, "")
    header, *rows = (tmp_path / "e.csv").read_text().splitlines()
    assert header == "series,from,to,onset,midpoint,end,duration"
    assert f"e.csv: {len(rows)} transitions" in said


def test_a_figure_of_an_unknown_type_is_refused_before_anything_is_written(
    command, files, tmp_path
):
    code, _, err = command(
        "recover", files / "m.mechtrace", files / "new.csv", "-o", tmp_path / "a.csv",
        "--plot", tmp_path / "c.jpg",
    )  # fmt: skip
    assert code == 2
    assert err.endswith("c.jpg: .jpg is no type of a figure; use .png, .svg, .pdf.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_report_repeats_the_fit_and_the_recovery(command, panel, files, tmp_path):
    panel.to_csv(tmp_path / "runs.csv")
    fit = ["fit", tmp_path / "runs.csv", "--out", tmp_path / "m.mechtrace", "--latents", 4]
    small = ["--hidden", 16, "--steps", 240, "--batch", 12, "--lr", 0.01]
    small += ["--set=align=false", "--set=evaluations=4"]
    code, _, err = command(*fit, *small, "--quiet")
    assert code == 0, err
    origin = mt.load(tmp_path / "m.mechtrace").record_.origin
    assert origin.command.startswith("mechtrace fit ")
    assert origin.finished[:2] == "20"
    code, said, _ = command("info", tmp_path / "m.mechtrace")
    assert f"fitted on {origin.finished} UTC by `mechtrace fit" in said
    code, _, err = command(
        "report", tmp_path / "m.mechtrace", files / "new.csv", "-o", tmp_path / "r.html"
    )
    assert code == 0, err
    page = (tmp_path / "r.html").read_text()
    assert "<dt>fitted by</dt><dd><pre>mechtrace fit " in page
    assert f"<dt>fitted on</dt><dd>{origin.finished} UTC</dd>" in page


def test_a_model_without_an_origin_can_be_reported(trained):
    assert trained.record_.origin.command is None  # it was fitted from Python
    stored = trained.record_.to_dict()
    del stored["origin"]
    assert type(trained.record_).from_dict(stored).origin is None
