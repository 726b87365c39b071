"""One self-contained HTML file about a recovery: the answer, the pictures, the evidence.

`words` says what a result says, `content` gathers what the page draws, `compact` makes it small,
`page` puts it into one file. The page draws itself, by the scripts in `assets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic import atomic_path
from ..errors import DataError
from . import words
from .page import html, lead, plotting_library

if TYPE_CHECKING:
    import numpy as np

    from ..estimator import Trace
    from ..recover.trajectory import Trajectory
    from ..series import Panel

__all__ = ["check_available", "report"]

#: Up to so many recordings are each told in a sentence, more are counted.
TOLD_ONE_BY_ONE = 3


def report(
    model: Trace,
    paths: Trajectory | Sequence[Trajectory],
    file: str | Path,
    *,
    panel: Panel | None = None,
    truth: np.ndarray | None = None,
    command: str | None = None,
) -> None:
    """Write what happened in recordings, and whether to believe it, into one HTML file.

    `panel` holds the recordings that the curves come from: with it their channels are drawn too.
    `truth` (T, K) is drawn dashed where it is known. `command` is how the curves were made.
    """
    from .content import page_content

    check_available()
    many = list(paths) if isinstance(paths, Sequence) else [paths]
    if not many:
        raise DataError("there is no curve to report on", fix="recover one first")
    content = page_content(model, many, panel, truth)
    source = panel.source if panel is not None else ""
    text = html(
        title=f"mechtrace report: {source or many[0].name}",
        lead=_lead(content),
        facts=_facts(model, many, panel, command),
        card=model.card_,
        content=content,
    )
    with atomic_path(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_available() -> None:
    """Raise at once if the plotting library is missing, before hours of work."""
    plotting_library()


def _lead(content: dict[str, Any]) -> str:
    series = content["series"]
    if len(series) + content["left_out"] > TOLD_ONE_BY_ONE:
        return lead(words.tally(series, content["left_out"]))
    parts = []
    for one in series:
        verdict = one["verdict"]
        why = (verdict["reason"], verdict["next"]) if len(series) == 1 else ()
        sentence = f"{one['name']}: {one['answer']}; trust: {verdict['trust']}"
        parts.append(lead(sentence, verdict["level"], *why))
    return "".join(parts)


def _facts(
    model: Trace, paths: Sequence[Trajectory], panel: Panel | None, command: str | None
) -> dict[str, str]:
    """All that is needed to get the same answer again."""
    from ..store import versions

    first, fitted = paths[0], model.facts_

    def listed(found: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in found.items())

    facts = {
        "command": command
        or f"model.recover(panel, method={first.method!r},"
        f" causal={first.causal}, pool={first.trials > 1}, level={first.level})",
        "versions": listed(versions()),
        "seed": str(fitted["settings"]["seed"]),
        "training data": f"{fitted['source']}, fingerprint {fitted['fingerprint']}",
    }
    if panel is not None:
        facts["new data"] = f"{panel.source}, fingerprint {panel.fingerprint()}"
    if fitted["versions"] != versions():
        facts["versions in training"] = listed(fitted["versions"])
    return facts
