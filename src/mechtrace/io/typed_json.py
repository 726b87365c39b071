"""JSON of unknown origin -> typed values: every field is checked before anything uses it."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import StoreError

#: What `X | None` is made of, with and without names of `typing` in X.
OPTIONAL = (UnionType, Union)


class Mismatch(Exception):
    """A stored field is not what the schema says."""


@contextmanager
def usable(where: str) -> Iterator[None]:
    """Turn a mismatch into the one error of a model file that cannot be used."""
    try:
        yield
    except Mismatch as error:
        raise StoreError(
            f"does not hold a usable model ({error})", where=where, fix="save the model again"
        ) from error


@dataclass(frozen=True)
class Between:
    """The range of a number, for use in `Annotated`."""

    least: float
    most: float


Count = Annotated[int, Between(0, 2**63 - 1)]
Size = Annotated[int, Between(1, 2**63 - 1)]
Probability = Annotated[float, Between(0, 1)]
NotNegative = Annotated[float, Between(0, sys.float_info.max)]
Positive = Annotated[float, Between(sys.float_info.min, sys.float_info.max)]


def parse_json(text: bytes, name: str) -> Any:
    """Parse UTF-8 JSON; numbers that are not finite and bottomless nesting are mismatches."""
    try:
        return json.loads(text.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Mismatch(f"{name} is not valid JSON") from error


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries and tuples as lists, all the way down."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (tuple, list)) else value


def decode(kind: Any, value: Any, name: str = "") -> Any:
    """Invert `plain` for a type; a wrong value raises `Mismatch`."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        if isinstance(value, Mapping):
            return kind(**decode_fields(kind, value, name))  # type: ignore[operator]
    elif origin is Annotated:
        number, allowed = decode(inner[0], value, name), inner[1]
        if allowed.least <= number <= allowed.most:
            return number
    elif origin in OPTIONAL:
        return None if value is None else decode(inner[0], value, name)
    elif origin is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(decode(inner[0], v, f"{name}[{i}]") for i, v in enumerate(value))
    elif origin is dict:
        if isinstance(value, Mapping):
            return {
                decode(str, key, name): decode(inner[1], each, f"{name}.{shown(key)}")
                for key, each in value.items()
            }
    elif origin is Literal:
        if isinstance(value, str) and value in inner:
            return value
    elif _is_plain(value, kind):
        return value
    raise Mismatch(f"{name or 'the record'} is {shown(value)!r}")


def _is_plain(value: Any, kind: Any) -> bool:
    """Whether a value is a finite number, a true or false, or text that can be written."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
    if kind is int:
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def decode_fields(
    kind: Any,
    stored: Mapping[str, Any],
    name: str = "",
    defaults: bool = False,
    without: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Values of the fields of a dataclass, but of those in `without`.

    With `defaults`, fields that have one may be missing.
    """
    at, hints = f"{name}." if name else "", get_type_hints(kind, include_extras=True)
    known = {f.name: f.default for f in fields(kind) if f.name not in without}
    for key in stored:
        if key not in known:
            raise Mismatch(f"unknown field {at}{shown(key)}")
    for key, default in known.items():
        if key not in stored and (default is MISSING or not defaults):
            raise Mismatch(f"no field {at}{key}")
    return {key: decode(hints[key], value, f"{at}{key}") for key, value in stored.items()}


def shown(value: Any) -> str:
    """Quote a stored value in a few characters."""
    text = value if isinstance(value, str) else reprlib.repr(value)
    return text[:40].encode(errors="replace").decode()
