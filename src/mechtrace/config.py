"""Settings as frozen, validated dataclasses; TOML in and out."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .errors import ConfigError

EXPERTS = ("affine", "nonparametric", "spline", "maf")
#: Weight layers of an expert where nothing is said: what each kind needs at least to be good.
EXPERT_LAYERS = {"affine": 2, "nonparametric": 3, "spline": 3, "maf": 3}


def _setting(default: Any, meaning: str) -> Any:
    """A field that says what it means: in the configuration files that mechtrace writes."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class ModelConfig:
    """What is learned: the latent space, the experts and the objective."""

    latents: int = _setting(8, "dimensions of the latent space")
    lags: int = _setting(2, "steps of history that an expert sees")
    experts: Literal["affine", "nonparametric", "spline", "maf"] = _setting(
        "affine", "affine, nonparametric, spline or maf"
    )
    encoder: Literal["auto", "mlp", "temporal", "image"] = _setting(
        "auto", "auto (mlp, for pictures over their key points), mlp, temporal or image (pixels)"
    )
    context: int | None = _setting(
        None, "past rows the encoder sees beside the current one; as many as lags"
    )
    hidden: int = _setting(128, "width of the networks")
    layers: int = _setting(
        2, "weight layers of encoder and decoder (a linear path runs beside them)"
    )
    expert_layers: int | None = _setting(None, "weight layers of an expert; by its kind")
    objective: Literal["elbo", "weighted"] = _setting(
        "elbo", "elbo (learned observation noise) or weighted (the paper's beta and gamma)"
    )
    beta: float = _setting(2e-3, "weight of the prior of the first steps, if weighted")
    gamma: float = _setting(2e-2, "weight of the transitions, if weighted")
    #: below it reconstruction drowns the dynamics
    noise_floor: float = _setting(
        0.05, "least observation noise, in standard deviations of a channel"
    )
    shrinkage: float = _setting(
        2000.0, "how strongly a regime's own part is drawn towards the shared one"
    )

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

    steps: int = _setting(3500, "training steps, if no early stop")
    batch: int | None = _setting(None, "crops per step over all regimes; 40, and 320 on a GPU")
    lr: float = _setting(4e-3, "learning rate")
    weight_decay: float = _setting(1e-4, "of the optimiser")
    warmup: int = _setting(100, "steps over which the learning rate rises")
    clip: float = _setting(10.0, "longest gradient")
    window: int = _setting(50, "longer series are cropped to so many rows at random places")
    holdout: float = _setting(0.1, "share of the series of each regime held out for selection")
    evaluations: int = _setting(20, "held-out evaluations over the whole run")
    patience: int = _setting(6, "evaluations without gain that end the run")
    align: bool = _setting(
        True, "look for identified axes; false leaves the latents as the network has them"
    )
    seed: int = _setting(0, "of everything random")
    device: str = _setting("auto", "auto, cpu or cuda")
    graph: bool = _setting(
        True, "one captured graph per step on CUDA; false gives the same, more slowly"
    )

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

    def to_toml(self, data: Mapping[str, Any] | None = None) -> str:
        """As text with comments; a setting that is None is commented out, which means the same.

        `data` says how columns are to be read, as `mechtrace fit --config` can be told too.

        >>> print(RunConfig().to_toml().splitlines()[1])
        latents = 8  # dimensions of the latent space
        """
        lines = []
        for group in ("model", "fit"):
            config = getattr(self, group)
            lines.append(f"[{group}]")
            lines += [
                _toml_line(f.name, getattr(config, f.name), f.metadata["meaning"])
                for f in fields(config)
            ]
            lines.append("")
        if data is not None:
            lines.append("[data]")
            lines += [_toml_line(name, data.get(name), m) for name, m in DATA_SETTINGS.items()]
            lines.append("")
        return "\n".join(lines)


#: How `mechtrace fit` reads columns; a Panel knows these names too.
DATA_SETTINGS = {
    "time": "column with the time",
    "series": "column that names the recording, or several as subject,trial",
    "regime": "column with the regime",
    "group": "column whose recordings are held out together, as subject",
    "channels": "columns that were measured",
    "missing": "missing cells: error, gap or interpolate",
    "size": "pictures are resized to this, as 64x64",
    "gap": "largest step in time that continues a recording",
}


def read_toml(path: Path) -> dict[str, Any]:
    """Flat settings from the [model] and [fit] tables of a TOML file; [data] stays a table."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fix = "check the path" if not path.exists() else "name a file that can be read"
        raise ConfigError(
            f"cannot be read ({error.strerror})", where=str(path), fix=fix
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        fix = "`mechtrace fit --write-config FILE` writes one to start from"
        raise ConfigError(f"is not valid TOML ({error})", where=str(path), fix=fix) from error
    options: dict[str, Any] = {}
    for group, values in content.items():
        if group not in ("model", "fit", "data") or not isinstance(values, dict):
            raise ConfigError(
                f"has an unknown table [{group}]",
                where=str(path),
                fix="put settings under [model], [fit] or [data]",
            )
        if group == "data":
            options["data"] = _checked_data(values, path)
        else:
            options |= values
    return options


def _checked_data(values: dict[str, Any], path: Path) -> dict[str, Any]:
    for name, value in values.items():
        where = f"{path}, [data]"
        if name not in DATA_SETTINGS:
            known = ", ".join(DATA_SETTINGS)
            raise ConfigError(f"there is no setting {name!r}", where=where, fix=f"use {known}")
        if name == "channels":
            good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        else:
            good = is_a(value, float if name == "gap" else str)
        if not good:
            kind = {"channels": "a list of names", "gap": "a number"}.get(name, "text")
            raise ConfigError(f"{name} = {value!r}", where=where, fix=f"make it {kind}")
    return values


def _names(config: type) -> set[str]:
    return {f.name for f in fields(config)}


def _toml_line(name: str, value: Any, meaning: str) -> str:
    if value is None:
        return f"# {name} = ...  # {meaning}"
    return f"{name} = {_toml_value(value)}  # {meaning}"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):  # JSON's escapes are TOML's, but for surrogate pairs and DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


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
        elif not is_a(value, kinds[0]):
            raise ConfigError(f"{name} = {value!r}", fix=f"make it {KIND_NAMES[kinds[0]]}")


KIND_NAMES = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text"}


def is_a(value: Any, kind: type) -> bool:
    """Whether a value can stand for a setting of this kind."""
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _at_least(config: Any, least: int, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not value >= least:
            raise ConfigError(f"{name} = {value!r}", fix=f"make it at least {least}")
