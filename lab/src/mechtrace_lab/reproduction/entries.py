"""Entries of tables: published values and where our figures are stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .compared_methods import ComparedMethod
from .models import Model
from .real_data import StudySource
from .tables import Figure
from .theorems import Theorems

#: Whose answers stand side by side; "other" is the method that a row is named after.
WHO = ("algorithm1", "default", "oracle", "other")
#: Who answers in most tables.
THREE_ANSWERS = WHO[:3]
#: The column for which nothing is printed, and which most people will have.
ALONE = "corr, one recording"
#: What is computed once for each seed, whatever tables look at it.
Source = Model | ComparedMethod | Theorems | StudySource


@dataclass(frozen=True)
class MeasureCall:
    """A measure with its options."""

    measure: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """Its name in a result file."""
        return f"{self.measure} {json.dumps(dict(self.options), sort_keys=True)}"


@dataclass(frozen=True)
class FigurePath:
    """Location of one of our figures: method, source and path in the row of the source."""

    who: str
    source: Source
    path: tuple[str, ...]
    call: MeasureCall | None = None  # of a model: nothing is measured on it unless asked

    @classmethod
    def in_model(cls, who: str, model: Model, call: MeasureCall, *path: str) -> FigurePath:
        """In what a measure of a trained model has found."""
        return cls(who, model, ("measures", call.key, *path), call)


@dataclass(frozen=True)
class Entry:
    """One entry of a table of the paper, with the locations of our figures."""

    row: str
    column: str
    printed: Figure | None
    where: tuple[FigurePath, ...]
    better: str = "more"  # or "less", or "" where neither is better


@dataclass(frozen=True)
class PaperTable:
    """A table or a figure of the paper."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    note: str = ""
