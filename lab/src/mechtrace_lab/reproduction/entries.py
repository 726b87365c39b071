"""What a table is made of: printed figures, and the places where ours for them lie."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .contestants import Contestant
from .models import Model
from .studied import Studied
from .tables import Figure
from .theorems import Theorems

#: Whose answers stand side by side; "other" is the method that a row is named after.
WHO = ("algorithm1", "default", "oracle", "other")
#: Who answers in most tables.
THREE_ANSWERS = WHO[:3]
#: The column for which nothing is printed, and which most people will have.
ALONE = "corr, one recording"
#: What is computed once for each seed, whatever tables look at it.
Source = Model | Contestant | Theorems | Studied


@dataclass(frozen=True)
class Ask:
    """A measure with its options."""

    measure: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """Its name in a result file."""
        return f"{self.measure} {json.dumps(dict(self.options), sort_keys=True)}"


@dataclass(frozen=True)
class Place:
    """Where a figure of ours lies: whose it is, what it stands on, and the path in its row."""

    who: str
    source: Source
    path: tuple[str, ...]
    ask: Ask | None = None  # of a model: nothing is measured on it unless asked

    @classmethod
    def in_model(cls, who: str, model: Model, ask: Ask, *path: str) -> Place:
        """In what a measure of a trained model has found."""
        return cls(who, model, ("measures", ask.key, *path), ask)


@dataclass(frozen=True)
class Entry:
    """One cell of a printed table: what the paper says, and where our figures for it are."""

    row: str
    column: str
    printed: Figure | None
    where: tuple[Place, ...]
    better: str = "more"  # or "less", or "" where neither is better


@dataclass(frozen=True)
class Table:
    """A table or a figure of the paper."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    note: str = ""
