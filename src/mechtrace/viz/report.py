"""One self-contained HTML file about recovered curves: the answer, the figures, the evidence.

`payload` collects what the page draws, `downsample` makes it small; the page draws itself, by the
scripts in `assets`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from .._runtime.process import atomic_path
from ..errors import DataError, MissingDependency
from .downsample import island
from .narrative import tally
from .sensors import first_screen

if TYPE_CHECKING:
    from ..data.panel import Panel
    from ..diagnose.findings import Diagnosis
    from ..estimator import Trace
    from ..identifiability.mechanisms import Mechanisms
    from ..stage2.trajectory import Trajectory

#: Our scripts, in the order in which they need each other.
SCRIPTS = (
    "elements.js", "numbers.js", "theme.js", "timeline.js", "film.js", "simplex.js", "graph.js",
    "mechanisms.js", "sensors.js", "recording.js", "aligned.js", "overview.js", "training.js",
    "start.js",
)  # fmt: skip
#: Up to this many recordings have a sentence each at the top; more are counted.
TOLD_ONE_BY_ONE = 3


class Results:
    """Curves of one model; what is derived from curve `i` is computed once, when it is asked for.

    `panel` holds the recordings that the curves come from, if these are at hand.
    """

    def __init__(
        self, model: Trace, paths: Sequence[Trajectory], panel: Panel | None = None
    ) -> None:
        self.model, self.paths = model, list(paths)
        self.panel = None if panel is None else model.prepared(panel)
        self.diagnosis: Callable[[int], Diagnosis] = cache(lambda i: model.diagnose(paths[i]))
        names = [] if self.panel is None else self.panel.names.tolist()
        self._positions = {name: i for i, name in enumerate(names)}

    @cached_property
    def mechanisms(self) -> Mechanisms:
        """Effects of each regime, averaged over the states of the recordings."""
        return self.model.mechanisms(self.panel)

    def recordings(self, i: int) -> Panel | None:
        """Return the recording of curve `i`, or the trials that were pooled for it."""
        path, panel = self.paths[i], self.panel
        if panel is None:
            return None
        if path.trials > 1:
            fits = len(panel) == path.trials and (panel.lengths == len(path)).all()
            return panel if fits else None
        at = self._positions.get(path.name)
        return None if at is None or panel.lengths[at] != len(path) else panel[at : at + 1]

    def latents(self, i: int) -> np.ndarray | None:
        """Return the latents (n, T, d) of the n trials of curve `i`, as `encode` does."""
        seen, mine = self.paths[i].observed, self.recordings(i)
        if seen is not None and seen.latents is not None:  # as recover encoded them
            return self.model.axes_.aligned(seen.latents)
        return None if mine is None else np.stack(self.model.encode(mine))


def report(
    model: Trace,
    paths: Trajectory | Sequence[Trajectory],
    file: str | Path,
    *,
    panel: Panel | None = None,
    truth: np.ndarray | None = None,
    command: str | None = None,
) -> None:
    """Write an HTML report about recovered curves: what happened, and how far to trust it.

    Parameters
    ----------
    model
        The model that recovered the curves.
    paths
        One curve or several.
    file
        The HTML file to write. It is self-contained and loads nothing.
    panel
        The recordings that the curves come from; with it, the report also draws their channels.
    truth
        True shares (T, K), drawn dashed where they are known.
    command
        How the curves were computed, shown for repetition.

    Raises
    ------
    DataError
        If there is no curve.
    MissingDependency
        If plotly is not installed.
    """
    many = list(paths) if isinstance(paths, Sequence) else [paths]
    write_page(Results(model, many, panel), file, truth=truth, command=command)


def write_page(
    results: Results,
    file: str | Path,
    *,
    truth: np.ndarray | None = None,
    command: str | None = None,
    progress: bool = False,
) -> None:
    """Write the report of results whose events and diagnoses may be computed already."""
    from .payload import payload

    check_available()
    if not results.paths:
        raise DataError("there is no curve to report on", fix="recover one first")
    from plotly.offline import get_plotlyjs

    content, facts = payload(results, truth, progress=progress), _facts(results, command)
    source = results.panel.source if results.panel is not None else ""
    script = "\n".join(_asset(name) for name in SCRIPTS)
    text = Template(_asset("page.html")).substitute(  # all text is escaped here
        title=escape(f"mechtrace report: {source or results.paths[0].name}"),
        style=_asset("report.css"),
        lead=_lead(content),
        apart=first_screen(results),
        facts="".join(f"<dt>{escape(k)}</dt><dd>{_fact(k, v)}</dd>" for k, v in facts.items()),
        card=escape(results.model.card_),
        library=island(get_plotlyjs()),
        content=island(content),
        script=f'(() => {{\n"use strict";\n{script}\n}})();',
    )
    with atomic_path(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_available() -> None:
    """Raise MissingDependency if plotly is not installed."""
    try:
        import plotly.offline  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            "reports need the package plotly", fix='pip install "mechtrace[report]"'
        ) from error


def _lead(content: dict[str, Any]) -> str:
    """Write the answer, at the top of the page, as HTML."""
    series = content["series"]
    if len(series) + content["left_out"] > TOLD_ONE_BY_ONE:
        return f'<p class="answer">{escape(tally(series, content["left_out"]))}.</p>'
    parts = []
    for one in series:
        verdict = one["verdict"]
        about = f" ({verdict['within']})" if verdict["within"] else ""
        sentence = escape(f"{one['name']}: {one['answer']}; verdict: {verdict['trust']}{about}")
        parts.append(f'<p class="answer {verdict["level"]}">{sentence}.</p>')
        if len(series) == 1 and verdict["next"]:
            reason, advice = escape(verdict["reason"]), escape(verdict["next"])
            parts.append(f'<p class="reason">{reason} <em>{advice}</em></p>')
    return "".join(parts)


def _facts(results: Results, command: str | None) -> dict[str, str]:
    """Collect what is needed to repeat the analysis."""
    from ..io.model_file import versions

    first, fitted, panel = results.paths[0], results.model.record_, results.panel

    def listed(found: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in found.items())

    facts = {
        "command": command
        or f"model.recover(panel, method={first.method!r},"
        f" causal={first.causal}, pool={first.trials > 1}, level={first.level})",
        "versions": listed(versions()),
        "seed": str(fitted.settings.fit.seed),
        "training data": f"{fitted.data.source}, fingerprint {fitted.data.fingerprint}",
    }
    if fitted.origin is not None:
        facts["fitted on"] = f"{fitted.origin.finished} UTC"
    if fitted.origin is not None and fitted.origin.command is not None:
        facts["fitted by"] = fitted.origin.command
    if panel is not None:
        facts["new data"] = f"{panel.source}, fingerprint {panel.fingerprint()}"
    if fitted.versions != versions():
        facts["versions in training"] = listed(fitted.versions)
    return facts


def _fact(name: str, value: str) -> str:
    code = name in ("command", "fitted by")
    return f"<pre>{escape(value)}</pre>" if code else escape(value)


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
