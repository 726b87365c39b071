"""The model card says in plain words what a person should know."""

from __future__ import annotations

from dataclasses import replace

import mechtrace as mt
from mechtrace.config import RunConfig
from mechtrace.io.parts import Preparation
from mechtrace.stage1.fit_record import (
    DataRecord,
    FitRecord,
    PictureRecord,
    TrainingRecord,
    ValidationRecord,
)
from mechtrace.stage1.model_card import model_card

RECORD = FitRecord(
    RunConfig.from_options(latents=8, lags=2),
    DataRecord(
        ("walk", "a|b"), ("x",), (1,), "runs.csv", "0" * 32, 1.0, Preparation(), 1200,
        {"walk": 3, "a|b": 4}, {"walk": 1, "a|b": 1},
    ),
    TrainingRecord(10, 5, None, 75.0, True, "cpu", 99, ()),
    {"mechtrace": mt.__version__},
)  # fmt: skip


def test_a_card_before_validation() -> None:
    card = model_card(RECORD)
    assert "Learned from `runs.csv`: 2 regimes, 1 channels, 1,200 training rows." in card
    assert r"| a\|b | 4 | 1 | not measured |" in card
    assert "best of 10 steps at step 5 (1:15 on cpu), held-out ELBO not measured" in card
    assert "Axes are not aligned" in card
    assert "do not determine" not in card


def test_a_card_says_what_to_do() -> None:
    checks = ValidationRecord({"walk": 0.5, "a|b": -0.1}, unused_latents=4)
    card = model_card(replace(RECORD, validation=checks, pictures=PictureRecord((16, 24), 0.25)))
    assert "These sensors do not determine 4 of the 8 latents; refit with 4." in card
    assert "no better than ignoring the past: the experts of a|b" in card
    assert "key points explain 75.0% of the variance of held-out pictures" in card
    assert "frames of 16 x 24" in card
    none_left = model_card(replace(RECORD, validation=replace(checks, unused_latents=8)))
    assert "do not determine 8 of the 8 latents; more steps may help." in none_left
