"""Rows of the study of the zoo -> figures of each system, alarm rates of findings, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

#: Mean absolute error of a good curve at most, and of a wrong one at least.
GOOD, WRONG = 0.08, 0.2
VERDICTS = ("trust", "caution", "do not trust")
#: Faults of a sensor, and of something else.
OF_SENSORS, OF_OTHERS = ("units", "stuck", "swapped"), ("foreign", "machine", "rate")
#: Columns of the tables: key, title and digits.
ACCURACY = (
    ("corr", "correlation", 3), ("mae", "MAE", 3), ("rival", "best rival's MAE", 3),
    ("cover", "coverage", 2), ("cover_between", "of .02-.98", 2), ("width", "width", 2),
    ("expected_ratio", "expected / true error", 2),
)  # fmt: skip
TRUST = (
    ("trust", "trust", 2), ("do_not_trust", "do not trust", 2), ("good_trust", "good: trust", 2),
    ("good_do_not_trust", "good: do not", 2), ("wrong_do_not_trust", "wrong: do not", 2),
    ("pure_trust", "pure: trust", 2), ("pure_do_not_trust", "pure: do not", 2),
    ("foreign_suspected", "foreign: not trust", 2), ("foreign_f1", "F1", 2),
    ("valid_flagged", "flagged", 3),
)  # fmt: skip
SENSORS = (
    *((f"named_{kind}", kind, 2) for kind in OF_SENSORS),
    ("sensors_valid", "alarms: valid", 3), ("sensors_pure", "pure", 3),
    *((f"sensors_{kind}", kind, 3) for kind in OF_OTHERS),
)  # fmt: skip

Row = dict[str, Any]
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def zoo_summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Summarise a study.

    Parameters
    ----------
    rows : sequence of dict
        `rows` of the result of `zoo_study`.

    Returns
    -------
    dict
        "systems": figures of each system, and "all"; "findings": alarm rates of each finding.
    """
    names = list(dict.fromkeys(row["system"] for row in rows))
    systems = {name: figures([row for row in rows if row["system"] == name]) for name in names}
    return {"systems": {**systems, "all": figures(rows)}, "findings": finding_rates(rows)}


def figures(rows: Sequence[Row]) -> dict[str, float | None]:
    """Compute the figures of some rows; None where there is nothing to count."""
    valid, pure = _all(rows, "valid"), _all(rows, "pure")
    good = [one for one in valid if one["mae"] < GOOD]
    wrong = [one for one in valid if one["mae"] > WRONG]
    errors = np.array([(one["expected"], one["mae"]) for one in valid + pure], float)
    errors = errors[np.isfinite(errors).all(axis=1)]
    means = errors.mean(axis=0) if len(errors) else np.full(2, np.nan)
    rivals = [
        min(part["mae"] for key, part in row.items() if key in _rivals(row))
        for row in rows
        if _rivals(row)
    ]
    alike = len(errors) < 3 or bool((np.ptp(errors, axis=0) == 0).any())
    out: dict[str, Any] = {
        "fits": len(rows),
        "corr": _mean(row["mechtrace"]["corr"] for row in rows),
        "mae": _mean(row["mechtrace"]["mae"] for row in rows),
        "rival": _mean(rivals),
        **{key: _mean(row["intervals"][key] for row in rows)
           for key in ("cover", "cover_between", "width")},
        "expected_ratio": means[0] / means[1] if means[1] > 0 else None,
        "expected_correlation": None if alike else float(np.corrcoef(errors.T)[0, 1]),
        **{f"{prefix}{verdict.replace(' ', '_')}": _share(part, verdict)
           for prefix, part in (("", valid), ("good_", good), ("wrong_", wrong), ("pure_", pure))
           for verdict in VERDICTS},
        "valid_flagged": _mean(one["flagged"] for one in valid),
        "sensors_valid": _mean("sensors" in one["bad"] for one in valid),
        "sensors_pure": _mean("sensors" in one["bad"] for one in pure),
    }  # fmt: skip
    foreign = _faults(rows, "foreign")
    out["foreign_suspected"] = _mean(one["verdict"] != "trust" for one in foreign)
    out["foreign_f1"] = _mean(one["f1"] for one in foreign if "f1" in one)
    for kind in OF_SENSORS:
        out[f"named_{kind}"] = _mean(one.get("named", False) for one in _faults(rows, kind))
    for kind in OF_OTHERS:
        found = _faults(rows, kind)
        out[f"sensors_{kind}"] = _mean("sensors" in one.get("bad", ()) for one in found)
    return {key: None if value is None else float(value) for key, value in out.items()}


def finding_rates(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """Share of recordings for which each finding is raised: of valid, good and pure ones."""
    valid, pure = _all(rows, "valid"), _all(rows, "pure")
    kinds = {"valid": valid, "good": [one for one in valid if one["mae"] < GOOD], "pure": pure}
    counts = {
        (kind, level): Counter(code for one in part for code in one[level])
        for kind, part in kinds.items()
        for level in ("caution", "bad")
    }
    codes = sorted(set().union(*counts.values()))
    return {
        code: {
            f"{kind}_{level}": count[code] / len(kinds[kind]) if kinds[kind] else None
            for (kind, level), count in counts.items()
        }
        for code in codes
    }


def tables(summary: dict[str, Any]) -> dict[str, Table]:
    """Header and lines of the tables of accuracy, trust, sensors and findings."""
    out: dict[str, Table] = {}
    for name, columns in (("accuracy", ACCURACY), ("trust", TRUST), ("sensors", SENSORS)):
        lines = [
            (system, *(_text(found[key], digits) for key, _, digits in columns))
            for system, found in summary["systems"].items()
        ]
        out[name] = (("system", *(title for _, title, _ in columns)), lines)
    rates = summary["findings"]
    keys = [
        f"{kind}_{level}" for kind in ("valid", "good", "pure") for level in ("caution", "bad")
    ]
    out["findings"] = (
        ("finding", *(key.replace("_", ": ") for key in keys)),
        [(code, *(_text(found[key], 3) for key in keys)) for code, found in rates.items()],
    )
    return out


def markdown(summary: dict[str, Any]) -> str:
    """Write all tables as Markdown."""
    parts = []
    for header, lines in tables(summary).values():
        every = [header, ("---",) * len(header), *lines]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in every))
    return "\n\n".join(parts)


def _all(rows: Sequence[Row], kind: str) -> list[Row]:
    return [one for row in rows for one in row[kind]]


def _faults(rows: Sequence[Row], kind: str) -> list[Row]:
    return [one for row in rows for one in row["faults"][kind]]


def _rivals(row: Row) -> set[str]:
    """Names of the other methods in a row, and Algorithm 1."""
    ours = {"mechtrace", "oracle", "pooled"}
    return {
        key for key, part in row.items()
        if key not in ours and isinstance(part, dict) and "mae" in part
    }  # fmt: skip


def _share(found: Sequence[Row], verdict: str) -> float | None:
    return _mean(one["verdict"] == verdict for one in found)


def _mean(values: Iterable[Any]) -> float | None:
    known = [float(value) for value in values]
    return float(np.mean(known)) if known else None


def _text(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
