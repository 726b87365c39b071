"""The schema of stored arrays: what a fit stores passes, anything else is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mechtrace.io.typed_json import Mismatch
from mechtrace.stage2.stored_arrays import OPTIONAL, Field, check_array, check_arrays


@pytest.fixture(scope="module")
def arrays(trained) -> dict[str, np.ndarray]:
    return trained.axes_.arrays() | trained.statistics_.arrays()


def test_what_a_fit_stores_passes(trained, arrays) -> None:
    assert check_arrays(trained.record_, arrays).keys() == arrays.keys()
    assert check_arrays(trained.record_, {}) == {}
    older = {name: array for name, array in arrays.items() if name not in OPTIONAL}
    assert not OPTIONAL.keys() & check_arrays(trained.record_, older).keys()


def test_every_array_must_be_there_with_its_axes_and_type(trained, arrays) -> None:
    for name, array in arrays.items():
        others = {key: value for key, value in arrays.items() if key != name}
        if name not in OPTIONAL:
            with pytest.raises(Mismatch, match=r"(no|no usable|unknown) array"):
                check_arrays(trained.record_, others)
        for forged in (array[None], array.astype("U3"), array.astype("f2")):
            with pytest.raises(Mismatch) as caught:
                check_arrays(trained.record_, others | {name: forged})
            assert name in str(caught.value)


def test_figures_of_the_sensors_are_there_as_a_whole_or_not_at_all(trained, arrays) -> None:
    older = {name: array for name, array in arrays.items() if "reference_sensors" not in name}
    assert len(older) < len(arrays)
    assert check_arrays(trained.record_, older).keys() == older.keys()
    pairs = np.array([[0, 6]])  # of six sensors
    forged = {
        "pairs": pairs, "sign": np.ones(1), "delay": np.ones((1, 3)),
        "delay_effect": np.zeros((1, 3, 3)), "delay_p_value": np.ones((1, 3, 3)),
    }  # fmt: skip
    named = {f"reference_sensors/{name}": array for name, array in forged.items()}
    with pytest.raises(Mismatch, match="sensors/pairs names sensors that are not there"):
        check_arrays(trained.record_, arrays | named)


@pytest.mark.parametrize(
    ("values", "bad"),
    [
        ("finite", [np.nan, np.inf, 1e31]),
        ("not negative", [-1.0]),
        ("positive", [0.0, -1.0]),
        ("not negative or infinite", [-1.0, -np.inf, np.nan]),
        ("invertible", [np.ones((2, 2)), np.zeros((2, 2))]),
        ("definite", [np.zeros((2, 2)), -np.eye(2), np.array([[1.0, 0.5], [0.0, 1.0]])]),
        ("semidefinite", [-np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]])]),
        ("finite or unknown", [np.inf, np.nan]),
    ],
)
def test_conditions(values: str, bad: list[Any]) -> None:
    axes = " ".join("ab"[: np.ndim(bad[0])])
    good = np.eye(2) if axes else np.ones(())
    check_array("x", Field(axes, values=values), good, {})
    for forged in bad:
        with pytest.raises(Mismatch, match=f"array x is not {values}"):
            check_array("x", Field(axes, values=values), np.asarray(forged), {})


@pytest.mark.parametrize(
    "choice",
    [
        {"selected": [], "tried": ["prediction(1)"], "errors": {}},
        {"selected": ["static"], "tried": ["prediction(1)"], "errors": {}},
        {"selected": ["prediction(1)"], "tried": ["prediction(1)", "odd(1)"], "errors": {}},
        {"selected": ["prediction(1)"], "tried": ["prediction(1)"] * 2, "errors": {}},
        {"selected": ["prediction(1)"], "tried": [f"prediction({'9' * 5000})"], "errors": {}},
        {"selected": ["prediction(1)"], "tried": ["prediction(1)", "prediction(999999)"],
         "errors": {}},
    ],
)  # fmt: skip
def test_the_choice_of_evidence_must_make_sense(trained, arrays, choice) -> None:
    text = np.frombuffer(json.dumps(choice).encode(), np.uint8)
    record = replace(trained.record_, evidence=None)
    with pytest.raises(Mismatch, match="evidence does not agree"):
        check_arrays(record, arrays | {"reference_choice": text})
