"""Fill values on the command line: an answer with a warning, and no model learned from them."""

from __future__ import annotations

import pandas as pd
import pytest


@pytest.fixture
def table(world, tmp_path):
    """Two recordings as a table with one fill value in the second."""
    frame = world.transition("simple", length=40, series=2, seed=3).panel.to_frame()
    frame["x2"] = frame["x2"].astype(float)
    frame.loc[60, "x2"] = 1e30
    path = tmp_path / "new.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.filterwarnings("default::mechtrace.errors.DataWarning")
@pytest.mark.parametrize("options", [[], ["--causal"]])
def test_recover_answers_for_every_recording(command, trained, table, tmp_path, options):
    trained.save(tmp_path / "m.mechtrace")
    out = tmp_path / "alpha.csv"
    code, _, err = command("recover", tmp_path / "m.mechtrace", table, "--out", out, *options)
    assert code == 0
    (line,) = [line for line in err.splitlines() if "warning" in line]
    assert "row 20" in line
    assert "1e+30 in channel 'x2'" in line
    answer = pd.read_csv(out, keep_default_na=False)
    assert len(answer) == 80
    assert answer["flag"][60] == "missing"
    assert (answer["flag"][:40] != "missing").all()


def test_fit_refuses_to_learn_from_it(command, panel, tmp_path):
    frame = panel.to_frame()
    frame["x2"] = frame["x2"].astype(float)
    frame.loc[33, "x2"] = -1e30
    frame.to_csv(tmp_path / "runs.csv", index=False)
    settings = ["--set", "latents=4", "--set", "steps=10"]
    model = tmp_path / "m.mechtrace"
    code, _, err = command("fit", tmp_path / "runs.csv", "--out", model, *settings)
    assert code == 2
    assert "-1e+30 in channel 'x2'" in err
    assert "row 13" in err
    assert not model.exists()
