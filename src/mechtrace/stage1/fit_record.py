"""FitRecord: everything about a fit but its arrays, typed and ready for JSON; the model card.

`FitRecord.from_dict` reads the current schema only; `io.model_file.read_archive` upgrades files of
older ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .._runtime.progress import duration
from ..config import RunConfig
from ..data.panel import Panel
from ..errors import DataError, MechtraceError, StoreError
from ..io.parts import Preparation


@dataclass(frozen=True)
class DataRecord:
    """The labelled recordings of a fit, as the model reads them."""

    regimes: tuple[str, ...]
    channels: tuple[str, ...]
    shape: tuple[int, ...]  # of a row
    source: str
    fingerprint: str
    step: float | None  # usual step in time
    preparation: Preparation
    training_rows: int
    training_series: dict[str, int]  # of each regime
    held_out_series: dict[str, int]


@dataclass(frozen=True)
class PictureRecord:
    """Pictures, if the model reads them through a keypoint frontend."""

    size: tuple[int, ...]
    unexplained: float  # share of the variance of held-out pictures


@dataclass(frozen=True)
class Evaluation:
    """One evaluation on held-out series."""

    step: int
    loss: float
    held_out_elbo: float


@dataclass(frozen=True)
class TrainingRecord:
    """The course of the training."""

    steps: int
    best_step: int
    held_out_elbo: float | None  # nats per step, at the best step
    seconds: float
    stopped_early: bool
    device: str
    parameters: int
    history: tuple[Evaluation, ...]


@dataclass(frozen=True)
class ValidationRecord:
    """Figures of the checks after training."""

    gain_over_no_history: dict[str, float]  # nats per step, of each regime
    unused_latents: int


@dataclass(frozen=True)
class EvidenceRecord:
    """The observation models that stage 2 uses, and the errors of those that were tried."""

    selected: tuple[str, ...]
    tried: tuple[str, ...]
    errors: dict[str, float]


@dataclass(frozen=True)
class AxisRecord:
    """The verdict on one latent."""

    name: str
    by: tuple[str, ...]
    subspace: tuple[str, ...]
    rotation_loss: float
    p_value: float
    used: bool


@dataclass(frozen=True)
class AxisEvidenceRecord:
    """One kind of evidence about the axes."""

    kind: str
    identified: int
    rotation_loss: float
    p_value: float
    facts: dict[str, float]


@dataclass(frozen=True)
class AxesRecord:
    """Which latents are identified, and by what."""

    verdict: str
    axes: tuple[AxisRecord, ...]
    evidence: tuple[AxisEvidenceRecord, ...]
    curvature: float
    weights_from: str
    held_out: bool


@dataclass(frozen=True)
class RefitRecord:
    """A refit of the experts in aligned coordinates."""

    steps: int
    gain: float  # nats per step on held-out series; 0: the experts were kept


@dataclass(frozen=True)
class FitRecord:
    """All facts about a fit; sections that are None were not reached or do not apply."""

    settings: RunConfig
    data: DataRecord
    training: TrainingRecord
    versions: dict[str, str]
    pictures: PictureRecord | None = None
    validation: ValidationRecord | None = None
    evidence: EvidenceRecord | None = None
    axes: AxesRecord | None = None
    refit: RefitRecord | None = None

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row of the recordings: (channels,) or (height, width)."""
        return self.data.shape if self.pictures is None else self.pictures.size

    def to_dict(self) -> dict[str, Any]:
        """One dictionary for JSON; the fields of `data` lie at its top."""
        out = {"settings": self.settings.options(), **plain(self.data)}
        for section, name in _SECTIONS.items():
            value = getattr(self, name)
            if value is not None:
                out[section] = plain(value)
        return out

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], where: str = "") -> FitRecord:
        """Invert `to_dict`; an unknown, missing or wrongly typed field is a StoreError."""
        rest, top = dict(stored), {f.name for f in fields(DataRecord)}
        try:
            settings = _settings(rest.pop("settings", None))
            data = decode(DataRecord, {k: rest.pop(k) for k in top & rest.keys()})
            named = {_SECTIONS.get(section, section): value for section, value in rest.items()}
            hints = {k: h for k, h in get_type_hints(cls).items() if k not in ("settings", "data")}
            sections = _decode_fields(cls, hints, named, "")
        except _Mismatch as error:
            raise StoreError(
                f"does not hold a usable model ({error})", where=where, fix="save the model again"
            ) from error
        return cls(settings, data, **sections)

    def check_channels(self, panel: Panel) -> None:
        """Refuse a panel whose rows are not like those of the fit."""
        if panel.shape != self.row_shape:
            raise DataError(
                f"the panel has rows of shape {panel.shape}, the model was trained on"
                f" {self.row_shape}",
                where=panel.source,
                fix="give the same channels as in training",
            )
        names = self.data.channels
        if not panel.is_image and tuple(panel.channels) != names:
            missing = [name for name in names if name not in panel.channels]
            detail = f"lacks {missing}" if missing else "has the channels in another order"
            raise DataError(
                f"the panel {detail}; the model was trained on {list(names)}",
                where=panel.source,
                fix="name the channels in that order (channels=[...])",
            )


#: Names of the sections in files and JSON, in their order there.
_SECTIONS = {
    "pictures": "pictures",
    "training": "training",
    "versions": "versions",
    "health": "validation",
    "evidence": "evidence",
    "axes": "axes",
    "refit": "refit",
}


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries and tuples as lists, all the way down."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (tuple, list)) else value


#: What `X | None` is made of, with and without names of `typing` in X.
OPTIONAL = (UnionType, Union)


class _Mismatch(Exception):
    """A stored field is not what the schema says."""


def decode(kind: Any, value: Any, name: str = "") -> Any:
    """Invert `plain` for a type; a wrong value raises."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        if isinstance(value, Mapping):
            hints = get_type_hints(kind)
            return kind(**_decode_fields(kind, hints, value, name))  # type: ignore[operator]
    elif origin in OPTIONAL:
        return None if value is None else decode(inner[0], value, name)
    elif origin is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(decode(inner[0], v, f"{name}[{i}]") for i, v in enumerate(value))
    elif origin is dict:
        if isinstance(value, Mapping):
            return {key: decode(inner[1], each, f"{name}.{key}") for key, each in value.items()}
    elif origin is Literal:
        if value in inner:
            return value
    elif isinstance(value, bool):
        if kind is bool:
            return value
    elif isinstance(value, (int, float) if kind is float else kind):
        return value
    raise _Mismatch(f"{name or 'the record'} is {str(value)[:40]!r}")


def _decode_fields(
    kind: Any, hints: Mapping[str, Any], stored: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """Values of the fields of a dataclass; only FitRecord may lack the optional ones."""
    at = f"{name}." if name else ""
    for key in stored:
        if key not in hints:
            raise _Mismatch(f"unknown field {at}{key}")
    for key, hint in hints.items():
        if key not in stored and (kind is not FitRecord or get_origin(hint) not in OPTIONAL):
            raise _Mismatch(f"no field {at}{key}")
    return {key: decode(hints[key], value, f"{at}{key}") for key, value in stored.items()}


def _settings(stored: Any) -> RunConfig:
    known = RunConfig().options()
    if not isinstance(stored, Mapping):
        raise _Mismatch("no field settings")
    for key in known:
        if key not in stored:
            raise _Mismatch(f"no field settings.{key}")
    try:
        return RunConfig.from_options(**stored)
    except MechtraceError as error:
        raise _Mismatch(f"settings: {error}") from error


def model_card(record: FitRecord) -> str:
    """Describe a fit: its data, quality, settings and axes."""
    data, training, shape = record.data, record.training, record.row_shape
    rows = f"{shape[0]} channels" if len(shape) == 1 else f"frames of {shape[0]} x {shape[1]}"
    gain = {} if record.validation is None else record.validation.gain_over_no_history
    lines = [
        "# A mechtrace model",
        "",
        f"Learned from `{data.source}`: {len(data.regimes)} regimes, {rows},"
        f" {data.training_rows:,} training rows.",
        "",
        "| regime | training series | held-out series | gain over no history (nats/step) |",
        "|---|---|---|---|",
    ]
    for name in data.regimes:
        known = f"{gain[name]:.2f}" if name in gain else "not measured"
        train, held = data.training_series[name], data.held_out_series[name]
        lines.append(f"| {name.replace('|', chr(92) + '|')} | {train} | {held} | {known} |")
    model, elbo = record.settings.model, training.held_out_elbo
    lines += [
        "",
        f"- {model.latents} latents, {model.lags} lags, {model.experts} experts,"
        f" {training.parameters:,} parameters, objective {model.objective}",
        f"- best of {training.steps} steps at step {training.best_step}"
        f" ({duration(training.seconds)} on {training.device}), held-out ELBO "
        + ("not measured" if elbo is None else f"{elbo:.3f} nats per step"),
        f"- seed {record.settings.fit.seed}, data fingerprint {data.fingerprint[:16]}",
        "- versions: " + ", ".join(f"{k} {v}" for k, v in record.versions.items()),
    ]
    weak = [name for name, nats in gain.items() if nats <= 0]
    if weak:
        lines.append(
            "- on held-out series no better than ignoring the past: the experts of"
            f" {', '.join(weak)}"
        )
    if record.pictures is not None:
        share = 1 - record.pictures.unexplained
        lines.append(f"- key points explain {share:.1%} of the variance of held-out pictures")
    unused = 0 if record.validation is None else record.validation.unused_latents
    if unused:
        lines.append(
            f"- These sensors do not determine {unused} of the {model.latents} latents;"
            + (" more steps may help." if unused == model.latents else
               f" refit with {model.latents - unused}.")
        )  # fmt: skip
    if record.evidence is not None:
        lines.append(f"- alpha(t) is recovered from {' + '.join(record.evidence.selected)}")
    return "\n".join([*lines, "", *_about_axes(record.axes)])


def _about_axes(axes: AxesRecord | None) -> list[str]:
    """Which latents are interpretable, and why."""
    if axes is None:
        return [
            "Axes are not aligned: the latents are identified up to a smooth invertible map, often"
            " a rotation. Do not interpret single axes.",
            "",
        ]
    lines = [axes.verdict, ""]
    if axes.evidence:
        lines += [
            "| evidence | axes it identifies alone"
            " | likelihood lost by rotating the axes (nats per step) | p |",
            "|---|---|---|---|",
            *(
                f"| {e.kind} | {e.identified} | {e.rotation_loss:.4f} | {e.p_value:.1g} |"
                for e in axes.evidence
            ),
            "",
            f"Curvature of the latent space: {axes.curvature:.0%} (0 % is flat). W^(k):"
            f" {axes.weights_from}.",
            "",
        ]
    return lines
