"""Settings as frozen, validated dataclasses; TOML in and out."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .errors import ConfigError

EXPERTS = ("affine", "nonparametric", "spline", "maf")
#: Weight layers of an expert where nothing is said: what each kind needs at least to be good.
EXPERT_LAYERS = {"affine": 2, "nonparametric": 3, "spline": 3, "maf": 3}


@dataclass(frozen=True)
class ModelConfig:
    """What is learned: the latent space, the experts and the objective."""

    latents: int = 8
    lags: int = 2
    experts: Literal["affine", "nonparametric", "spline", "maf"] = "affine"
    #: "auto": convolutions for images, else an MLP
    encoder: Literal["auto", "mlp", "temporal", "image"] = "auto"
    #: past rows the encoder sees beside the current one; None = as many as lags
    context: int | None = None
    hidden: int = 128
    #: weight layers of encoder and decoder (a linear path runs beside them)
    layers: int = 2
    expert_layers: int | None = None
    objective: Literal["elbo", "weighted"] = "elbo"
    beta: float = 2e-3
    gamma: float = 2e-2
    #: smallest observation noise the decoder may claim, in standard deviations of a channel; below
    #: it reconstruction drowns the dynamics
    noise_floor: float = 0.05
    #: strength with which a regime's own part is drawn towards the shared one
    shrinkage: float = 2000.0

    def __post_init__(self) -> None:
        """Refuse values that no model can have."""
        _check_kinds(self)
        _at_least(self, 1, "latents", "lags", "hidden")
        _at_least(self, 2, "layers", "expert_layers")
        _at_least(self, 0, "context", "beta", "gamma", "shrinkage")
        if not self.noise_floor > 0:
            raise ConfigError(f"noise_floor = {self.noise_floor}", fix="make it positive")

    @property
    def depth_of_experts(self) -> int:
        """Weight layers of an expert."""
        return self.expert_layers or EXPERT_LAYERS[self.experts]


@dataclass(frozen=True)
class FitConfig:
    """How it is learned: steps, batches, learning rate, hold-out, seed and device."""

    steps: int = 3500
    #: series (or crops of them) per step over all regimes; None = 40, and 320 on a GPU
    batch: int | None = None
    lr: float = 4e-3
    weight_decay: float = 1e-4
    warmup: int = 100
    clip: float = 10.0
    #: longer series are cropped to so many rows at random places
    window: int = 50
    #: share of the series of each regime that is held out for model selection
    holdout: float = 0.1
    #: held-out evaluations over the whole run, and how many without gain end it
    evaluations: int = 20
    patience: int = 6
    #: look for identified axes after training; False leaves the latents as the network has them
    align: bool = True
    seed: int = 0
    device: str = "auto"
    #: one captured graph per step on CUDA; False gives the same numbers more slowly
    graph: bool = True

    def __post_init__(self) -> None:
        """Refuse values that no training run can have."""
        _check_kinds(self)
        _at_least(self, 1, "steps", "batch", "evaluations", "patience")
        _at_least(self, 2, "window")
        _at_least(self, 0, "warmup", "weight_decay", "seed")
        if not (self.lr > 0 and self.clip > 0):
            raise ConfigError(f"lr = {self.lr}, clip = {self.clip}", fix="make both positive")
        if not 0 <= self.holdout < 1:
            raise ConfigError(f"holdout = {self.holdout}", fix="use a share in [0, 1)")


#: The paper's recipe (its table of hyperparameters, which are also those of its predecessors).
PAPER_RECIPE: dict[str, Any] = {
    "experts": "nonparametric",
    "objective": "weighted",
    "layers": 3,
    "expert_layers": 4,
    "lr": 5e-4,
    "batch": 64,
    "shrinkage": 0.0,
}


@dataclass(frozen=True)
class RunConfig:
    """Everything `mechtrace fit --config run.toml` can set."""

    model: ModelConfig = field(default_factory=ModelConfig)
    fit: FitConfig = field(default_factory=FitConfig)

    @classmethod
    def from_options(cls, **options: Any) -> RunConfig:
        """Sort flat options into the two groups; an unknown name is an error."""
        groups: dict[str, dict[str, Any]] = {"model": {}, "fit": {}}
        kinds = {"model": ModelConfig, "fit": FitConfig}
        for name, value in options.items():
            group = next((g for g, c in kinds.items() if name in _names(c)), None)
            if group is None:
                known = sorted(_names(ModelConfig) | _names(FitConfig))
                raise ConfigError(f"there is no setting {name!r}", fix=f"use one of {known}")
            groups[group][name] = value
        return cls(ModelConfig(**groups["model"]), FitConfig(**groups["fit"]))

    def options(self) -> dict[str, Any]:
        """All settings as one flat dictionary."""
        return asdict(self.model) | asdict(self.fit)

    def to_toml(self) -> str:
        """As text; a setting that is None is left out, which means the same.

        >>> print(RunConfig().to_toml().splitlines()[1])
        latents = 8
        """
        lines = []
        for group in ("model", "fit"):
            lines.append(f"[{group}]")
            for name, value in asdict(getattr(self, group)).items():
                if value is not None:
                    lines.append(f"{name} = {_toml_value(value)}")
            lines.append("")
        return "\n".join(lines)


def read_toml(path: Path) -> dict[str, Any]:
    """Flat settings from a TOML file with [model] and [fit] tables."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"is not valid TOML ({error})", where=str(path)) from error
    options: dict[str, Any] = {}
    for group, values in content.items():
        if group not in ("model", "fit") or not isinstance(values, dict):
            raise ConfigError(
                f"has an unknown table [{group}]",
                where=str(path),
                fix="put settings under [model] or [fit]",
            )
        options |= values
    return options


def _names(config: type) -> set[str]:
    return {f.name for f in fields(config)}


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _check_kinds(config: Any) -> None:
    """Every value must be of its declared kind; numpy numbers become plain ones."""
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if hasattr(value, "item"):
            value = value.item()
            object.__setattr__(config, name, value)
        optional = type(None) in get_args(hint)
        if value is None and optional:
            continue
        kinds = get_args(hint) if optional else (hint,)
        if get_origin(kinds[0]) is Literal:
            allowed = get_args(kinds[0])
            if value not in allowed:
                raise ConfigError(f"{name} = {value!r}", fix=f"use one of {', '.join(allowed)}")
        elif not _is_a(value, kinds[0]):
            raise ConfigError(f"{name} = {value!r}", fix=f"make it {KIND_NAMES[kinds[0]]}")


KIND_NAMES = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}


def _is_a(value: Any, kind: type) -> bool:
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _at_least(config: Any, least: int, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not value >= least:
            raise ConfigError(f"{name} = {value!r}", fix=f"make it at least {least}")
