"""The schema of the arrays in a model file: one table, checked before anything reads them.

A row gives the axes of an array (K regimes, d latents, L lags, c channels, p dimensions of an
observation model, t of the tested one; other names are free, but the same everywhere), its type
and what its values must be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ..config import ModelConfig
from ..io.typed_json import Mismatch, decode, parse_json
from ..stage1.fit_record import EvidenceRecord, FitRecord
from .channel_experts import LEARNED_LAGS, MEMBER_LAGS
from .channel_member import BENT_LAGS, DRAWS
from .model_selection import joined
from .observation_models import CHANNELS, PLAIN, canonical, parse
from .pure_statistics import tested_model
from .sensor_faults import KINDS as FAULTS
from .sensor_faults import RATES
from .sensor_statistics import KINDS, QUANTILES

#: Largest magnitude: its square and its reciprocal are far from the limits of float64.
LARGEST = 1e30
#: Smallest eigenvalue of a covariance and of a Gram matrix, relative to the largest.
LEAST_EIGENVALUE, ROUNDING = 1e-12, 1e-6


class Field(NamedTuple):
    """Axes, kind of number (f, i or u, as numpy has it) and condition of an array."""

    axes: str
    kind: str = "f"
    values: str = "finite"


#: Arrays that lie in the file by these names. Groups can be absent as a whole.
AXES = {
    "axes/matrix": Field("d d", values="invertible"),
    "axes/offset": Field("d"),
}
WEIGHTS = {
    "axes/weights": Field("K L d d"),
    "axes/error": Field("K L d d", values="not negative"),
}
OBSERVABLE = {"observable_subspace": Field("d d")}
STATISTICS = {
    "means": Field("K d"),
    "spread": Field("d d", values="semidefinite"),
    "noise": Field("K d d", values="semidefinite"),
    "between": Field("d d", values="semidefinite"),
    "surprise": Field("n T", values="not negative or unknown"),
    "width": Field("d", values="not negative"),
    "steps": Field("K", values="positive"),
    "pure_error": Field("m U t", values="finite or unknown"),
    "pure_past": Field("m U t", values="finite or unknown"),
    "gram": Field("K K", values="semidefinite"),
    "group": Field("n or 0", "i", "not negative"),
    "pure_group": Field("m or 0", "i", "not negative"),
    "support/centre": Field("d"),
    "support/root": Field("d d", values="invertible"),
    "support/limit": Field("", values="not negative or infinite"),
    "choice": Field("bytes", "u"),
}
#: Of each observation model, and of each basis correction.
BLOCK = {
    "means": Field("K p"),
    "noise": Field("p p", values="definite"),
    "time": Field("", values="positive"),
    "limit": Field("", values="not negative or infinite"),
}
OFFSETS = {
    "stacking": Field("K K"),
    "doubt": Field("K K", values="not negative"),
    "series": Field("K K", values="semidefinite"),
    "stretch": Field("K K", values="semidefinite"),
}
#: Of the mechanisms of the channels, and of each member of their ensemble (number i).
EXPERTS = {
    "centre": Field("c"),
    "projection": Field("c q"),
    "axes": Field("q q", values="invertible"),
}
MEMBER = {
    "directions": Field("G{i} a{i} F{i}"),
    "phases": Field("G{i} F{i}"),
    "linear": Field("b{i} F{i}"),
    "weights": Field("K P{i} q"),
    "draws": Field("D K P{i} q"),
}
#: Of the moments of windows of each size, in the directions that tell regimes apart; absent for
#: pictures and in older models.
MOMENTS = {
    "centre": Field("c"),
    "rescale": Field("c", values="not negative"),
    "weights": Field("f w"),
    "offset": Field("w"),
}
#: How channels go together; absent for pictures and in older models.
CHANNEL_STATISTICS = {
    f"reference_channels/{name}": field
    for name, field in {
        "centre": Field("c"),
        "scale": Field("c", values="positive"),
        "moment": Field("e e", values="semidefinite"),
        "limit": Field("", values="positive"),
        "still": Field("c", "i", "not negative"),
    }.items()
}
#: What the sensors do in each regime; absent for pictures and in models of schemas before 4.
SENSOR_STATISTICS = {
    f"reference_sensors/{name}": field
    for name, field in {
        "recordings": Field("K", "i", "not negative"),
        "level": Field("quantiles K c"),
        "spread": Field("K c", values="not negative"),
        "frequency": Field("K c", values="not negative"),
        "pairs": Field("pairs two", "i", "not negative"),
        "sign": Field("pairs"),
        "delay": Field("pairs K", values="not negative or infinite"),
        "effect": Field("kinds c K K"),
        "p_value": Field("kinds c K K", values="not negative"),
        "delay_effect": Field("pairs K K"),
        "delay_p_value": Field("pairs K K", values="not negative"),
        "testable": Field("K K", "i", "not negative"),
        "time_kind": Field("", "i", "not negative"),
    }.items()
}
#: How recordings differ; absent where that does not matter, and in older models.
EFFECTS = {
    "reference_effects/common": Field("q q", values="semidefinite"),
    "reference_effects/own": Field("K q q", values="semidefinite"),
    "reference_effects/noise": Field("q q", values="definite"),
    "reference_effects/shares": Field("K K", values="semidefinite"),
}
#: Arrays that older models lack.
OPTIONAL = {
    "reference_seed": Field("", "i", "not negative"),
    "reference_form_known": Field("", "i", "not negative"),
    "reference_channels/gained": Field("", values="positive"),
    "reference_channels/natural": Field("faults c", values="not negative"),
    "reference_channels/lagged": Field("rates c c"),
    "reference_channels/varied": Field("two c", values="not negative"),
    "reference_channels/span": Field("two c"),
    "reference_channels/regimes": Field("K rows rows", values="semidefinite"),
}
REFERENCE = "reference_"
#: Bytes of a number of each kind.
ITEMSIZES = {"f": (4, 8), "i": (4, 8), "u": (1,)}


def check_arrays(record: FitRecord, stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays by their current names; raise `Mismatch` unless they fit the table."""
    arrays = {canonical(name): array for name, array in stored.items()}
    config = record.settings.model
    sizes = {"K": len(record.data.regimes), "d": config.latents, "L": config.lags}
    wanted: dict[str, tuple[Field, int]] = {}
    for group in (AXES, WEIGHTS, OBSERVABLE):
        if any(name in arrays for name in group):
            wanted |= {name: (field, 0) for name, field in group.items()}
    if any(name.startswith(REFERENCE) for name in arrays):
        choice = f"{REFERENCE}choice"
        if choice not in arrays:
            raise Mismatch(f"no array {choice}")
        check_array(choice, STATISTICS["choice"], arrays[choice], sizes)
        evidence = check_evidence(arrays[choice].tobytes(), record)
        sizes |= {"c": len(record.data.channels), "D": DRAWS, "w": sizes["K"] - 1}
        sizes["f"] = 2 * sizes["c"]
        sizes["q"] = _coordinates(arrays) if CHANNELS in evidence.tried else 0
        sizes["t"] = sizes["q" if tested_model(evidence.selected) == CHANNELS else "d"]
        windows = [name for name in evidence.tried if parse(name)[0] == "window_moments"]
        reduced = [name for name in windows if f"{_moments(name)}weights" in arrays]
        wanted |= {
            f"{REFERENCE}{n}": row for n, row in _statistics(evidence, config, sizes, reduced)
        }
        wanted |= {f"{_moments(n)}{key}": (of, 0) for n in reduced for key, of in MOMENTS.items()}
        if sizes["q"]:
            wanted |= {name: (field, 0) for name, field in _experts(arrays, sizes)}
            if any(name in arrays for name in EFFECTS):
                wanted |= {name: (field, 0) for name, field in EFFECTS.items()}
        wanted |= {name: (field, 0) for name, field in OPTIONAL.items() if name in arrays}
        if any(name in arrays for name in CHANNEL_STATISTICS):
            sizes |= {"e": 2 * sizes["c"], "rows": 2 * sizes["c"] + 1, "two": 2}
            sizes |= {"faults": len(FAULTS), "rates": len(RATES)}
            wanted |= {name: (field, 0) for name, field in CHANNEL_STATISTICS.items()}
        if any(name in arrays for name in SENSOR_STATISTICS):
            sizes |= {"quantiles": len(QUANTILES), "two": 2, "kinds": len(KINDS)}
            wanted |= {name: (field, 0) for name, field in SENSOR_STATISTICS.items()}
    for name in arrays.keys() ^ wanted.keys():
        missing = "no" if name in wanted else "unknown"
        raise Mismatch(f"{missing} array {name[:60]}")
    for name, (field, p) in wanted.items():
        sizes["p"] = p
        check_array(name, field, arrays[name], sizes)
    pairs = arrays.get("reference_sensors/pairs", np.zeros(0))
    if pairs.size and pairs.max() >= sizes["c"]:
        raise Mismatch("array reference_sensors/pairs names sensors that are not there")
    return arrays


def check_evidence(text: bytes, record: FitRecord) -> EvidenceRecord:
    """Decode the choice of observation models, which must be that of the record."""
    content = parse_json(text, f"{REFERENCE}choice")
    if isinstance(content, dict) and "blocks" in content:  # of earlier versions
        content = {("selected" if k == "blocks" else k): v for k, v in content.items()}
    found = decode(EvidenceRecord, content, f"{REFERENCE}choice")
    selected, tried = (tuple(map(canonical, names)) for names in (found.selected, found.tried))
    errors = {canonical(name): error for name, error in found.errors.items()}
    evidence = EvidenceRecord(selected, tried, errors)
    good = record.evidence is None or record.evidence == evidence
    good &= bool(selected) and set(selected) <= set(tried) and PLAIN in tried
    good &= len(set(selected)) == len(selected) and len(set(tried)) == len(tried)
    try:
        good &= all(parse(name)[1] <= record.data.training_rows for name in tried)
    except ValueError:  # no such kind, or a size of thousands of digits
        good = False
    if not good:
        raise Mismatch("evidence does not agree with the other fields")
    return evidence


def _coordinates(arrays: Mapping[str, np.ndarray]) -> int:
    """Dimensions in which channels are predicted."""
    name = f"{REFERENCE}experts/projection"
    if name not in arrays or arrays[name].ndim != 2 or not arrays[name].shape[1]:
        raise Mismatch(f"no usable array {name}")
    return arrays[name].shape[1]


def _experts(
    arrays: Mapping[str, np.ndarray], sizes: dict[str, int]
) -> Iterator[tuple[str, Field]]:
    """List the arrays of the mechanisms of the channels; their sizes depend on each other."""
    prefix = f"{REFERENCE}experts/"
    for name, field in EXPERTS.items():
        yield prefix + name, field
    count, q = (
        sum(name.startswith(prefix) and name.endswith("/linear") for name in arrays),
        sizes["q"],
    )
    if not 1 <= count <= 2 * len(MEMBER_LAGS) + len(LEARNED_LAGS):
        raise Mismatch(f"array {prefix}0/linear is one of {count}")
    for i in range(count):
        linear = arrays.get(f"{prefix}{i}/linear")
        if linear is None or linear.ndim != 2 or (len(linear) - 1) // q not in MEMBER_LAGS:
            raise Mismatch(f"no usable array {prefix}{i}/linear")
        lags = (len(linear) - 1) // q
        sizes |= {f"a{i}": min(BENT_LAGS, lags) * q, f"b{i}": 1 + lags * q}
        sizes[f"P{i}"] = sizes[f"b{i}"] + linear.shape[1]
        phases = arrays.get(f"{prefix}{i}/phases")
        if phases is None or phases.ndim != 2 or len(phases) not in (1, sizes["K"]):
            raise Mismatch(f"no usable array {prefix}{i}/phases")
        for name, field in MEMBER.items():
            yield f"{prefix}{i}/{name}", field._replace(axes=field.axes.format(i=i))


def _moments(name: str) -> str:
    """Prefix of the arrays that reduce an observation model's moments."""
    return f"{REFERENCE}moments/{parse(name)[1]}/"


def _statistics(
    evidence: EvidenceRecord, config: ModelConfig, sizes: dict[str, int], reduced: list[str]
) -> Iterator[tuple[str, tuple[Field, int]]]:
    for name, field in STATISTICS.items():
        yield name, (field, 0)
    for model in evidence.tried:
        p = config.latents * (3 if parse(model)[0] == "window_moments" else 1)
        p = sizes["q"] if model == CHANNELS else sizes["w"] if model in reduced else p
        for part, field in BLOCK.items():
            yield f"block/{model}/{part}", (field, p)
    for name in dict.fromkeys((*evidence.tried, joined(evidence.selected))):
        for part, field in OFFSETS.items():
            yield f"offsets/{name}/{part}", (field, 0)


def check_array(name: str, field: Field, array: np.ndarray, sizes: dict[str, int]) -> None:
    """Compare one array with its row; free letters are entered into `sizes`."""
    axes = field.axes.removesuffix(" or 0").split()
    known = array.dtype.kind == field.kind and array.dtype.itemsize in ITEMSIZES[field.kind]
    if not known or array.ndim != len(axes):
        raise Mismatch(f"array {name} is {array.dtype} with {array.ndim} axes")
    if field.axes.endswith(" or 0") and array.shape == (0,):
        return
    expected = tuple(sizes.setdefault(axis, n) for axis, n in zip(axes, array.shape, strict=True))
    if array.shape != expected:
        raise Mismatch(f"array {name} has the shape {array.shape}, not {expected}")
    if field.kind != "u" and array.size and not _holds(np.asarray(array, float), field.values):
        raise Mismatch(f"array {name} is not {field.values}")


def _holds(values: np.ndarray, condition: str) -> bool:
    """Whether values are what the table says."""
    what, _, special = condition.partition(" or ")
    known = values
    if special == "unknown":
        known = values[~np.isnan(values)]
        if not known.size:
            return False
    elif special == "infinite":
        known = values[values != np.inf]
    if not (np.abs(known) <= LARGEST).all():
        return False
    match what:
        case "not negative":
            return bool((known >= -(ROUNDING**2) * np.abs(known).max(initial=0.0)).all())
        case "positive":
            return bool((known >= 1 / LARGEST).all())
        case "invertible":
            return bool((np.linalg.cond(known) < 1 / LEAST_EIGENVALUE).all())
        case "definite" | "semidefinite":
            return _is_covariance(known, LEAST_EIGENVALUE if what == "definite" else -ROUNDING)
    return True


def _is_covariance(matrices: np.ndarray, least: float) -> bool:
    size = np.abs(matrices).max(axis=(-2, -1))
    if (np.abs(matrices - matrices.mT).max(axis=(-2, -1)) > ROUNDING * size).any():
        return False
    eigenvalues = np.linalg.eigvalsh(matrices)
    smallest, largest = eigenvalues[..., 0], eigenvalues[..., -1]
    if least > 0:
        return bool((smallest >= np.maximum(least * largest, 1 / LARGEST)).all())
    return bool((smallest >= least * largest - 1 / LARGEST).all())
