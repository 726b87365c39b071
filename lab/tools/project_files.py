"""Where the tools read results and write documentation, and how they print tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "lab" / "results", ROOT / "docs"
IMAGES = DOCS / "images"


def read(path: Path) -> dict[str, Any]:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def load(name: str) -> dict[str, Any]:
    """Read a result by its name."""
    return read(RESULTS / f"{name}.json")


def matching(pattern: str) -> list[Path]:
    """Paths of the results that match a pattern, in order."""
    return sorted(RESULTS.glob(f"{pattern}.json"))


def save(figure: Any, name: str, dpi: int = 110, **options: Any) -> None:
    """Write a picture of the documentation and print its path."""
    target = IMAGES / f"{name}.png"
    figure.savefig(target, dpi=dpi, **options)
    print(target.relative_to(ROOT))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Format a Markdown table, line by line."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (columns, *rows)]
    return [lines[0], "|---" * len(columns) + "|", *lines[1:]]


def section(
    title: str,
    text: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    end: str = "",
) -> str:
    """Format a section: a title, a paragraph, a table and a last paragraph."""
    lines = [title, "", text, "", *table(columns, rows), *(["", end] if end else [])]
    return "\n".join(lines) + "\n"


def mean(values: Iterable[float | None]) -> float:
    """Mean of the known values; null in a result means that there was nothing to measure."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


def mean_of(rows: Iterable[dict[str, Any]], key: str) -> float:
    """Mean of one figure over rows."""
    return mean(row[key] for row in rows)


def grouped(rows: Iterable[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], list[Any]]:
    """Group rows by the values of some keys."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups
