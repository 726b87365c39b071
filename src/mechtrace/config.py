"""Settings as frozen, validated dataclasses; TOML in and out."""

from __future__ import annotations

import inspect
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, get_origin, get_type_hints

from .errors import ConfigError

if TYPE_CHECKING:
    from tomlkit.items import Table

EXPERTS = ("affine", "nonparametric", "spline", "maf")
#: Sizes that the data choose where they are "auto"; networks are built of numbers only.
SIZES = ("latents", "lags")
#: Default number of weight layers of each kind of expert.
EXPERT_LAYERS = {"affine": 2, "nonparametric": 3, "spline": 3, "maf": 3}

#: Layers of a temporal encoder, at most: it looks back 2^layers rows.
MOST_DILATIONS = 16


def _setting(default: Any, meaning: str) -> Any:
    """Return a field with its meaning, which the TOML files of mechtrace carry as a comment."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class ModelConfig:
    """Settings of the model: latent space, networks, experts and objective."""

    latents: int = _setting("auto", "dimensions of the latent space, or auto")
    lags: int = _setting("auto", "steps of history that an expert reads, or auto")
    experts: Literal["affine", "nonparametric", "spline", "maf"] = _setting(
        "affine", "affine, nonparametric, spline or maf"
    )
    encoder: Literal["auto", "mlp", "temporal", "image"] = _setting(
        "auto", "auto (mlp, for pictures over their key points), mlp, temporal or image (pixels)"
    )
    context: int | None = _setting(
        None, "past rows that the encoder reads beside the current one; by default `lags`"
    )
    hidden: int = _setting(128, "width of the networks")
    layers: int = _setting(
        2, "weight layers of encoder and decoder (beside a linear skip connection)"
    )
    expert_layers: int | None = _setting(
        None, "weight layers of an expert; by default 2 (affine) or 3"
    )
    objective: Literal["elbo", "weighted"] = _setting(
        "elbo", "elbo (learned observation noise) or weighted (the paper's beta and gamma)"
    )
    beta: float = _setting(2e-3, "weight of the KL term of the first L steps, if weighted")
    gamma: float = _setting(2e-2, "weight of the KL term of the transitions, if weighted")
    #: with less noise, the reconstruction outweighs the dynamics in the ELBO
    noise_floor: float = _setting(
        0.05, "smallest observation noise, in standard deviations of a channel"
    )
    shrinkage: float = _setting(
        2000.0, "penalty on the squared difference of a regime's weights from the shared ones"
    )

    def __post_init__(self) -> None:
        """Validate; raise ConfigError."""
        _check_kinds(self)
        _at_least(self, 1, "latents", "lags", "hidden")
        _at_least(self, 2, "layers", "expert_layers")
        _at_least(self, 0, "context", "beta", "gamma", "shrinkage")
        if not self.noise_floor > 0:
            raise ConfigError(f"noise_floor = {self.noise_floor}", fix="make it positive")
        if self.encoder == "temporal" and self.layers > MOST_DILATIONS:
            fix = f"make it at most {MOST_DILATIONS}: each layer looks back twice as far"
            raise ConfigError(f"layers = {self.layers} of a temporal encoder", fix=fix)

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """Names of the sizes that the data are to choose."""
        return tuple(name for name in SIZES if vars(self)[name] == "auto")

    @property
    def depth_of_experts(self) -> int:
        """Weight layers of an expert."""
        return self.expert_layers or EXPERT_LAYERS[self.experts]


@dataclass(frozen=True)
class FitConfig:
    """Settings of the training: steps, batches, learning rate, hold-out, seed and device."""

    steps: int = _setting(3500, "training steps, unless stopped early")
    batch: int | None = _setting(
        None, "crops per step over all regimes; by default 40, on a GPU 320"
    )
    lr: float = _setting(4e-3, "learning rate")
    weight_decay: float = _setting(1e-4, "weight decay of AdamW")
    warmup: int = _setting(100, "steps over which the learning rate rises")
    clip: float = _setting(10.0, "clip the gradient norm to this value")
    window: int = _setting(
        50, "rows of a training crop; longer series are cropped at random places"
    )
    holdout: float = _setting(0.1, "share of the series of each regime held out for selection")
    evaluations: int = _setting(20, "held-out evaluations over the whole run")
    patience: int = _setting(6, "stop after this many evaluations without gain")
    align: bool = _setting(
        True, "align the latents with identified axes; false keeps the coordinates of the network"
    )
    seed: int = _setting(0, "seed of everything random")
    device: str = _setting("auto", "auto, cpu or cuda")
    graph: bool = _setting(
        True, "capture a training step as one CUDA graph; false gives the same, more slowly"
    )

    def __post_init__(self) -> None:
        """Validate; raise ConfigError."""
        _check_kinds(self)
        _at_least(self, 1, "steps", "batch", "evaluations", "patience")
        _at_least(self, 2, "window")
        _at_least(self, 0, "warmup", "weight_decay")
        check_seed(self.seed)
        if not (self.lr > 0 and self.clip > 0):
            raise ConfigError(f"lr = {self.lr}, clip = {self.clip}", fix="make both positive")
        if not 0 <= self.holdout < 1:
            raise ConfigError(f"holdout = {self.holdout}", fix="use a share in [0, 1)")


#: Sizes of the paper's world, which its tables use.
PAPER_SIZES: dict[str, Any] = {"latents": 8, "lags": 2}
#: The hyperparameters of the paper, which are also those of its predecessors.
PAPER_RECIPE: dict[str, Any] = {
    **PAPER_SIZES,
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
    """All settings of a fit."""

    model: ModelConfig = field(default_factory=ModelConfig)
    fit: FitConfig = field(default_factory=FitConfig)

    @classmethod
    def from_options(cls, **options: Any) -> RunConfig:
        """Sort flat options into the two groups; an unknown name is a ConfigError."""
        model, fit = ({f.name for f in fields(kind)} for kind in (ModelConfig, FitConfig))
        for name in options:
            if name not in model | fit:
                known = sorted(model | fit)
                raise ConfigError(f"there is no setting {name!r}", fix=f"use one of {known}")
        return cls(
            ModelConfig(**{name: options[name] for name in options if name in model}),
            FitConfig(**{name: options[name] for name in options if name in fit}),
        )

    def options(self) -> dict[str, Any]:
        """Return all settings as one flat dictionary."""
        return asdict(self.model) | asdict(self.fit)

    def to_toml(self, data: Mapping[str, Any] | None = None) -> str:
        """Return the settings as TOML with comments; settings that are None are commented out.

        Parameters
        ----------
        data : mapping, optional
            How to read columns, for the table [data]: `DATA_SETTINGS`.

        Returns
        -------
        str
            What `mechtrace fit --config` reads.

        Examples
        --------
        >>> print(RunConfig().to_toml().splitlines()[1])
        latents = "auto"  # dimensions of the latent space, or auto
        """
        import tomlkit

        document = tomlkit.document()
        for group in ("model", "fit"):
            config = getattr(self, group)
            meanings = {f.name: f.metadata["meaning"] for f in fields(config)}
            document.add(group, _toml_table(vars(config), meanings))
        if data is not None:
            document.add("data", _toml_table(data, DATA_SETTINGS))
        return tomlkit.dumps(document)


class Configurable:
    """An object whose constructor parameters are settings, as scikit-learn has it."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all settings by name."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings; an unknown name is a ConfigError."""
        for name, value in settings.items():
            if name not in self._defaults():
                RunConfig.from_options(**{name: value})  # raises, with the list of known names
            setattr(self, name, value)
        return self

    def config(self) -> RunConfig:
        """Return the settings, validated."""
        return RunConfig.from_options(**self.get_params())

    def __repr__(self) -> str:
        default = self._defaults()
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if v != default[k]]
        return f"{type(self).__name__}({', '.join(changed)})"


#: Settings of the table [data]: how `mechtrace fit` reads columns.
DATA_SETTINGS = {
    "time": "column with the time",
    "series": "column that names the recording, or several as subject,trial",
    "regime": "column with the regime",
    "group": "column whose recordings are held out together, as subject",
    "channels": "columns that were measured",
    "missing": "missing cells: error, gap or interpolate",
    "size": "pictures are resized to this, as 64x64",
    "gap": "largest step in time that continues a recording",
    "rate": "rows per unit of time (per second for dates) that recordings are resampled to",
    "detrend": "removed from each channel of every recording: mean or line",
}


def _toml_table(values: Mapping[str, Any], meanings: Mapping[str, str]) -> Table:
    import tomlkit

    table = tomlkit.table()
    for name, meaning in meanings.items():
        value = values.get(name)
        if value is None:
            table.add(tomlkit.comment(f"{name} = ...  # {meaning}"))
        else:
            item = tomlkit.item(value).comment(meaning)
            item.trivia.comment_ws = "  "
            table.add(name, item)
    return table


def _check_kinds(config: Any) -> None:
    """Check the type of every value; numpy scalars become plain numbers."""
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if getattr(value, "ndim", None) == 0:
            value = value.item()
            object.__setattr__(config, name, value)
        optional = type(None) in get_args(hint)
        auto = name in SIZES
        if (value is None and optional) or (auto and isinstance(value, str) and value == "auto"):
            continue
        kinds = get_args(hint) if optional else (hint,)
        if get_origin(kinds[0]) is Literal:
            allowed = get_args(kinds[0])
            if not (isinstance(value, str) and value in allowed):
                what = f"{name} = {_shown(value)}"
                raise ConfigError(what, fix=f"use one of {', '.join(allowed)}")
        elif not is_a(value, kinds[0]):
            fix = f"make it {KIND_NAMES[kinds[0]]}{', or auto' if auto else ''}"
            raise ConfigError(f"{name} = {_shown(value)}", fix=fix)


def _shown(value: Any) -> str:
    """Quote a value; a long or deeply nested one only in part."""
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a number of 19 digits or more"
    return repr(value) if isinstance(value, str) and len(value) < 60 else reprlib.repr(value)


KIND_NAMES = {
    int: "a whole number below 2^63",
    float: "a finite number",
    bool: "true or false",
    str: "text",
}


def is_a(value: Any, kind: type) -> bool:
    """Return whether a value has the type of a setting; an int is a float, a bool is no int."""
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and abs(value) <= sys.float_info.max
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


#: Seeds are multiplied with prime numbers, and torch takes 64 bits.
MOST_SEED = (1 << 44) - 1


def check_seed(seed: Any) -> int:
    """Return a seed, or raise ConfigError if it is none."""
    seed = seed.item() if hasattr(seed, "item") else seed
    if not is_a(seed, int) or not 0 <= seed <= MOST_SEED:
        long = isinstance(seed, int) and abs(seed) > 10**40  # Python prints no longer ones
        given = "a very long number" if long else repr(seed)
        raise ConfigError(f"seed = {given}", fix=f"make it a whole number from 0 to {MOST_SEED}")
    return seed


def _at_least(config: Any, least: int, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value not in (None, "auto") and not value >= least:
            raise ConfigError(f"{name} = {value!r}", fix=f"make it at least {least}")
