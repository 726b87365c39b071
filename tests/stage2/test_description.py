"""Regimes in words: units, order, what is said and what is not."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import DataError, NotFitted
from mechtrace.stage2.description import Description
from mechtrace.stage2.difference_sentences import MOST_SENTENCES, NOTHING, TimeUnit
from mechtrace.stage2.sensor_statistics import DATES, NUMBERS, ROWS, SensorStatistics

REGIMES, SENSORS = ("calm", "brisk", "worn"), ("flow", "head", "heat")


def statistics(**given):
    """Figures in which nothing differs, but for what is given."""
    kinds, sensors = len(REGIMES), len(SENSORS)
    usual = {
        "recordings": np.array([20, 21, 22]),
        "level": np.tile(np.array([1.0, 2.0, 3.0])[:, None, None], (1, kinds, sensors)),
        "spread": np.full((kinds, sensors), 0.5),
        "frequency": np.zeros((kinds, sensors)),
        "pairs": np.zeros((0, 2), int),
        "sign": np.zeros(0),
        "delay": np.zeros((0, kinds)),
        "effect": np.zeros((4, sensors, kinds, kinds)),
        "p_value": np.ones((4, sensors, kinds, kinds)),
        "delay_effect": np.zeros((0, kinds, kinds)),
        "delay_p_value": np.ones((0, kinds, kinds)),
        "testable": np.ones((kinds, kinds), int),
    }
    return SensorStatistics(**usual | given)


def apart(kind, sensor, a, b, size, found=None):
    """Make two regimes differ in a feature."""
    found = statistics() if found is None else found
    effect, p_value = found.effect.copy(), found.p_value.copy()
    effect[kind, sensor, a, b], effect[kind, sensor, b, a] = size, -size
    p_value[kind, sensor, a, b] = p_value[kind, sensor, b, a] = 0.01
    return replace(found, effect=effect, p_value=p_value)


def described(found, unit=None):
    return Description(REGIMES, SENSORS, found, unit or TimeUnit(0.5, True, "seconds"))


def test_nothing_different_is_said_as_such():
    text = described(statistics())
    assert set(map(tuple, text.by_regime.values())) == {
        ("no difference in level, fluctuation, rhythm or response beyond chance",)
    }
    assert len(text.alike) == 3
    assert "calm (20 recordings)" in str(text)


def test_few_recordings_are_said_where_nothing_differs():
    text = described(statistics(recordings=np.array([20, 5, 22])))
    assert text.alike[0].endswith("beyond chance, but there are few recordings (20 and 5).")
    assert text.alike[1] == f"calm and worn: no difference in {NOTHING} beyond chance."


def test_too_few_recordings_are_said_as_such():
    text = described(statistics(testable=np.zeros((3, 3), int)))
    assert text.by_regime["calm"] == ["too few recordings to tell whether other regimes differ"]
    assert text.alike == []


def test_many_regimes_are_not_compared(monkeypatch):
    monkeypatch.setattr("mechtrace.stage2.difference_sentences.MOST_REGIMES", 2)
    text = described(statistics(testable=np.zeros((3, 3), int)))
    assert text.by_regime["calm"] == ["not compared: there are more than 2 regimes"]


def test_levels_are_compared_with_the_regimes_that_differ():
    level = statistics().level.copy()
    level[:, 2, 1] += 10
    found = apart(0, 1, 2, 0, 5.0, apart(0, 1, 2, 1, 4.0, statistics(level=level)))
    text = described(found)
    [worn] = text.by_regime["worn"]
    assert worn == (
        "head is higher than in calm and brisk: 12 instead of 2 (90 % of rows: 11 to 13)"
    )
    assert text.by_regime["calm"][0].startswith("head is lower than in worn: 2 instead of 12")
    assert text.alike == [
        "calm and brisk: no difference in level, fluctuation, rhythm or response beyond chance."
    ]


def test_levels_that_contradict_the_comparison_within_groups_are_not_shown():
    [worn] = described(apart(0, 1, 2, 0, -5.0)).by_regime["worn"]
    assert worn == "head is lower than in calm, in recordings of the same group"


def test_the_most_telling_comes_first_and_little_is_said():
    found = statistics()
    for kind in range(4):
        for sensor in range(3):
            found = apart(kind, sensor, 0, 1, 1.0 + kind + sensor, found)
    frequency = np.array([[0.1, 0.2, 0.3], [0.05, 0.1, 0.15], [0, 0, 0]])
    found = replace(found, frequency=frequency)
    texts = described(found).by_regime["calm"]
    assert len(texts) == MOST_SENTENCES
    assert texts[0] == "heat swings faster than in brisk: period 1.67 s instead of 3.33 s"
    assert "rhythm than" in described(apart(3, 0, 0, 1, 99.0)).by_regime["calm"][0]


def test_a_common_period_is_said_once():
    found = statistics(frequency=np.array([[0.1, 0.102, 0], [0.05, 0.05, 0], [0, 0, 0]]))
    found = apart(2, 1, 0, 1, 3.0, apart(2, 0, 0, 1, 2.0, found))
    assert described(found).by_regime["calm"] == [
        "flow and head swing faster than in brisk: period 5 s instead of 10 s"
    ]


def test_a_rhythm_that_others_lack():
    found = apart(3, 2, 0, 1, 3.0, statistics(frequency=np.array([[0, 0, 0.1]] + 2 * [[0] * 3])))
    text = described(found)
    assert text.by_regime["calm"] == ["heat swings with a period of 5 s; no clear rhythm in brisk"]
    assert text.by_regime["brisk"] == ["heat has no clear rhythm; a period of 5 s in calm"]


def test_responses_are_said_with_their_delays():
    effect = np.zeros((1, 3, 3))
    effect[0, 2, 0], effect[0, 0, 2] = 3.0, -3.0
    p_value = np.where(effect != 0, 0.01, 1.0)
    given = {"pairs": np.array([[0, 1]]), "sign": np.array([-1.0]), "delay_effect": effect,
             "delay_p_value": p_value}  # fmt: skip
    text = described(statistics(**given, delay=np.array([[6.0, 6.0, 18.0]])))
    assert text.by_regime["worn"] == [
        "after a rise of flow, head falls later than in calm: after about 9 s instead of 3 s"
    ]
    assert text.to_dict()["responses"][0]["delay"] == {"calm": 3.0, "brisk": 3.0, "worn": 9.0}
    vague = described(statistics(**given, delay=np.array([[6.0, 6.0, np.inf]])))
    assert vague.by_regime["worn"] == ["after a rise of flow, head falls later than in calm"]
    assert vague.to_dict()["responses"][0]["delay"]["worn"] is None


@pytest.mark.parametrize(
    ("step", "kind", "column", "shown"),
    [
        (0.5, DATES, "when", "2 s"),
        (60.0, DATES, "when", "4 min"),
        (0.5, NUMBERS, "time_s", "2 s"),
        (0.5, NUMBERS, "t [ms]", "2 ms"),
        (0.5, NUMBERS, "Seconds", "2 s"),
        (0.5, NUMBERS, "s", "2 time units"),
        (0.5, NUMBERS, None, "2 time units"),
        (1.0, ROWS, None, "4 steps"),
        (None, NUMBERS, "t", "4 steps"),
    ],
)
def test_times_are_in_the_units_of_the_recordings(step, kind, column, shown):
    assert TimeUnit.of(step, kind, column).shown(4.0) == shown


def test_figures_as_a_table_and_as_json():
    text = described(statistics(frequency=np.array([[0.1, 0, 0]] + 2 * [[0] * 3])))
    frame = text.to_frame()
    assert list(frame.columns) == ["regime", "sensor", "median", "low", "high", "spread", "period"]
    assert len(frame) == 9
    assert frame.loc[0, ["median", "low", "high", "spread", "period"]].tolist() == [
        2,
        1,
        3,
        0.5,
        5,
    ]
    assert np.isnan(frame.loc[1, "period"])
    content = json.loads(json.dumps(text.to_dict(), allow_nan=False))
    assert content["regimes"]["calm"]["sensors"]["head"]["period"] is None
    assert content["time_unit"] == "seconds"


def test_a_notebook_shows_names_as_text():
    text = described(statistics())
    assert "<b>calm</b>" in text._repr_html_()
    evil = Description(("<i>", "b", "c"), SENSORS, statistics(), text.unit)
    assert "<i>" not in evil._repr_html_()


# --- a whole model -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pump():
    panel = mt.worlds.make("pump", machines=2, length=60).simulate(12).panel
    model = mt.Trace(latents=4, hidden=16, steps=40, batch=12, lr=1e-2, evaluations=2, align=False)
    return model.fit(panel, progress=False)


def test_a_model_describes_its_regimes_and_a_stored_one_without_the_data(pump, tmp_path):
    text = pump.describe()
    assert any("inlet_bar is lower" in sentence for sentence in text.by_regime["clogged"])
    assert any("vibration_mm_s fluctuates more" in s for s in text.by_regime["clogged"])
    pump.save(tmp_path / "pump.mechtrace")
    again = mt.load(tmp_path / "pump.mechtrace").describe()
    assert str(again) == str(text)
    assert again.to_dict() == text.to_dict()


def test_older_models_load_and_say_what_is_missing(pump, tmp_path, monkeypatch):
    monkeypatch.setattr("mechtrace.io.model_file.SCHEMA", 3)
    monkeypatch.setattr(pump, "statistics_", replace(pump.statistics_, sensors=None))
    pump.save(tmp_path / "older.mechtrace")
    monkeypatch.undo()
    older = mt.load(tmp_path / "older.mechtrace")
    with pytest.raises(NotFitted, match=r"does not know what its sensors do.*fit it again"):
        older.describe()


def test_the_command_says_the_same(pump, tmp_path, command):
    file = tmp_path / "pump.mechtrace"
    pump.save(file)
    code, out, _ = command("describe", file)
    assert code == 0
    assert out.rstrip() == str(pump.describe())
    code, out, _ = command("describe", file, "--json", "-", "--quiet")
    assert json.loads(out) == pump.describe().to_dict()
    code, _, err = command("describe", tmp_path / "none.mechtrace")
    assert code == 2
    assert re.match(r"mechtrace: .*none.mechtrace: ", err)


def test_pictures_have_no_sensors(pump, monkeypatch):
    data = replace(pump.record_.data, shape=(8, 8))
    monkeypatch.setattr(pump, "record_", replace(pump.record_, data=data))
    with pytest.raises(DataError, match="a model of pictures has no sensors"):
        pump.describe()
