"""Config: every bad value is refused in one line; TOML and flat options round-trip."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mechtrace as mt
from mechtrace.config import (
    EXPERT_LAYERS,
    EXPERTS,
    PAPER_RECIPE,
    FitConfig,
    ModelConfig,
    RunConfig,
)
from mechtrace.errors import ConfigError
from mechtrace.io.settings_file import read_toml

NAN, INF = float("nan"), float("inf")

BAD: list[tuple[str, Any]] = [
    *((name, value) for name in ("latents", "lags", "hidden") for value in (0, -1, 2.0, "8", NAN)),
    *((name, value) for name in ("layers", "expert_layers") for value in (1, 0, 2.5, True)),
    *((name, value) for name in ("beta", "gamma", "shrinkage") for value in (-0.1, NAN, "1")),
    ("latents", True),
    ("context", -1),
    ("context", 1.5),
    ("experts", "linear"),
    ("experts", None),
    ("experts", ""),
    ("encoder", "conv"),
    ("objective", "ELBO"),
    ("noise_floor", 0.0),
    ("noise_floor", -1.0),
    ("noise_floor", NAN),
    *((name, 0) for name in ("steps", "batch", "evaluations", "patience")),
    *((name, 1.5) for name in ("steps", "batch", "evaluations", "patience")),
    ("window", 1),
    ("window", "50"),
    ("warmup", -1),
    ("weight_decay", -1e-9),
    ("seed", -1),
    ("seed", 0.5),
    ("lr", 0.0),
    ("lr", -1.0),
    ("lr", NAN),
    ("clip", 0),
    ("clip", NAN),
    ("holdout", 1.0),
    ("holdout", -0.1),
    ("holdout", NAN),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_bad_values_are_refused_in_one_line(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_options(**{name: value})
    text = str(caught.value)
    assert f"{name} = {value!r}" in text
    assert caught.value.fix
    assert "\n" not in text
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latents", 1), ("lags", 1), ("latents", "auto"), ("lags", "auto"), ("hidden", 1),
        ("layers", 2), ("expert_layers", 2),
        ("expert_layers", None), ("context", 0), ("context", None), ("beta", 0), ("gamma", 0.0),
        ("shrinkage", 0), ("noise_floor", 1e-6), ("steps", 1), ("batch", 1), ("batch", None),
        ("window", 2), ("warmup", 0), ("weight_decay", 0), ("seed", 0), ("lr", 1), ("clip", 1e-9),
        ("holdout", 0), ("holdout", 0.999), ("evaluations", 1), ("patience", 1), ("graph", False),
        *(("experts", kind) for kind in EXPERTS),
        *(("encoder", kind) for kind in ("auto", "mlp", "temporal", "image")),
        *(("objective", kind) for kind in ("elbo", "weighted")),
    ],
)  # fmt: skip
def test_the_edges_of_what_is_allowed(name: str, value: Any) -> None:
    assert RunConfig.from_options(**{name: value}).options()[name] == value


def test_a_choice_lists_what_is_allowed() -> None:
    with pytest.raises(ConfigError, match="use one of affine, nonparametric, spline, maf"):
        ModelConfig(experts="gp")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latents", None), ("hidden", None), ("steps", None), ("seed", None), ("lr", None),
        ("lr", "1e-3"), ("clip", "10"), ("noise_floor", "0.1"), ("holdout", "0.1"),
        ("lr", INF), ("beta", INF), ("graph", "no"), ("device", 3),
    ],
)  # fmt: skip
def test_values_that_should_be_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError):
        RunConfig.from_options(**{name: value})


def test_depth_of_experts() -> None:
    for kind in EXPERTS:
        assert ModelConfig(experts=kind).depth_of_experts == EXPERT_LAYERS[kind]  # type: ignore[arg-type]
        chosen = ModelConfig(experts=kind, expert_layers=5)  # type: ignore[arg-type]
        assert chosen.depth_of_experts == 5


def test_configs_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        RunConfig().model.latents = 3  # type: ignore[misc]


# --- flat options ------------------------------------------------------------------------------


def test_from_options_sorts_settings_into_their_group() -> None:
    config = RunConfig.from_options(latents=3, steps=7, lr=0.5, encoder="mlp")
    assert config.model == ModelConfig(latents=3, encoder="mlp")
    assert config.fit == FitConfig(steps=7, lr=0.5)
    assert RunConfig.from_options(**config.options()) == config
    assert RunConfig.from_options() == RunConfig()


def test_no_setting_is_in_both_groups() -> None:
    model, fit = ({f.name for f in fields(c)} for c in (ModelConfig, FitConfig))
    assert not model & fit
    assert set(RunConfig().options()) == model | fit


def test_an_unknown_setting_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="there is no setting 'latent'; use one of") as caught:
        RunConfig.from_options(latent=3)
    for name in RunConfig().options():
        assert f"'{name}'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_paper_recipe_is_valid() -> None:
    options = RunConfig.from_options(**PAPER_RECIPE).options()
    assert {name: options[name] for name in PAPER_RECIPE} == PAPER_RECIPE


# --- TOML --------------------------------------------------------------------------------------

numbers = st.floats(1e-12, 1e12)
some_options = st.fixed_dictionaries(
    {},
    optional={
        "latents": st.integers(1, 10**6),
        "context": st.none() | st.integers(0, 9),
        "expert_layers": st.none() | st.integers(2, 9),
        "experts": st.sampled_from(EXPERTS),
        "objective": st.sampled_from(["elbo", "weighted"]),
        "beta": st.just(0) | numbers,
        "noise_floor": numbers,
        "batch": st.none() | st.integers(1, 999),
        "lr": numbers,
        "holdout": st.floats(0, 0.99),
        "graph": st.booleans(),
        "device": st.sampled_from(["auto", "cpu", "cuda:1"]),
        "seed": st.integers(0, 2**40),
    },
)


@settings(max_examples=50, deadline=None)
@given(options=some_options)
def test_toml_round_trip(options: dict[str, Any], tmp_path_factory: Any) -> None:
    config = RunConfig.from_options(**options)
    path = tmp_path_factory.mktemp("toml") / "run.toml"
    path.write_text(config.to_toml(), encoding="utf-8")
    assert RunConfig.from_options(**read_toml(path)) == config


def test_toml_text_has_two_tables_and_no_none() -> None:
    content = tomllib.loads(RunConfig().to_toml())
    assert set(content) == {"model", "fit"}
    assert "context" not in content["model"]
    assert "batch" not in content["fit"]
    assert content["fit"]["graph"] is True
    assert content["model"]["experts"] == "affine"
    left_out = {"context", "expert_layers", "batch"}
    assert set(content["model"]) | set(content["fit"]) == set(RunConfig().options()) - left_out


@pytest.mark.parametrize(
    "options", [{"lr": np.float64(0.01)}, {"latents": np.int64(4)}, {"beta": np.float32(0.5)}]
)
def test_numpy_numbers_are_numbers(options: dict[str, Any]) -> None:
    content = tomllib.loads(RunConfig.from_options(**options).to_toml())
    ((name, value),) = options.items()
    assert (content["model"] | content["fit"])[name] == value


def test_roles_of_columns_round_trip() -> None:
    data = {"gap": np.float64(0.5), "channels": ("a,b", 'x "1"', "\x7f"), "time": "t\n"}
    content = tomllib.loads(RunConfig().to_toml(data))
    assert content["data"] == data | {"channels": ["a,b", 'x "1"', "\x7f"]}


def test_text_with_quotes_round_trips() -> None:
    config = RunConfig.from_options(device='a"b\\c')
    assert tomllib.loads(config.to_toml())["fit"]["device"] == 'a"b\\c'


def test_a_temporal_encoder_has_few_layers() -> None:
    assert ModelConfig(encoder="temporal", layers=16).layers == 16
    with pytest.raises(ConfigError, match="17 of a temporal encoder; make it at most 16"):
        ModelConfig(encoder="temporal", layers=17)
    assert ModelConfig(layers=17).layers == 17


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True, None, 1 << 44, 10**400])
def test_a_seed_that_cannot_be_used_is_refused_everywhere(seed: object) -> None:
    for use in (
        lambda: mt.worlds.make("paper", seed=seed),
        lambda: mt.worlds.make("pump", seed=seed),
        lambda: mt.worlds.make("pump").simulate(1, seed=seed),
        lambda: RunConfig.from_options(seed=seed),
    ):
        with pytest.raises(ConfigError, match="seed = "):
            use()


def test_the_largest_seed_draws_a_batch() -> None:
    from mechtrace.config import MOST_SEED
    from mechtrace.stage1.fit_run import FitRun

    panel = mt.worlds.make("paper", regimes=2, latents=3, channels=4, length=20).simulate(4).panel
    config = RunConfig.from_options(latents=4, lags=2, seed=MOST_SEED)
    FitRun.prepare(panel, config).trainer.batches.load(10**6)


def test_a_number_too_long_for_a_float_is_refused() -> None:
    with pytest.raises(ConfigError, match="finite number"):
        RunConfig.from_options(lr=10**400)
