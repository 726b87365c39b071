"""One HTML file: a template, our own style and scripts, the plotting library and the data."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from ..errors import MissingDependency
from .compact import island

#: Our scripts, in the order in which they need each other.
SCRIPTS = (
    "elements.js", "numbers.js", "theme.js", "timeline.js", "film.js", "simplex.js", "graph.js",
    "mechanisms.js", "recording.js", "overview.js", "training.js", "start.js",
)  # fmt: skip


def plotting_library() -> str:
    """The source of plotly.js, out of the installed package plotly."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingDependency(
            "reports need the package plotly", fix='pip install "mechtrace[report]"'
        ) from error
    return str(get_plotlyjs())


def html(
    *, title: str, lead: str, facts: Mapping[str, str], card: str, content: dict[str, Any]
) -> str:
    """The page. All text is escaped here; `lead` is HTML already."""
    script = "\n".join(_asset(name) for name in SCRIPTS)
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        style=_asset("report.css"),
        lead=lead,
        facts="".join(f"<dt>{escape(k)}</dt><dd>{_fact(k, v)}</dd>" for k, v in facts.items()),
        card=escape(card),
        library=island(plotting_library()),
        content=island(content),
        script=f'(() => {{\n"use strict";\n{script}\n}})();',
    )


def lead(sentence: str, level: str = "", reason: str = "", next_step: str = "") -> str:
    """The answer, before anything else."""
    kind = f" {level}" if level else ""
    parts = [f'<p class="answer{kind}">{escape(sentence)}.</p>']
    if reason:
        parts.append(f'<p class="reason">{escape(reason)} <em>{escape(next_step)}</em></p>')
    return "".join(parts)


def _fact(name: str, value: str) -> str:
    """Commands are for copying."""
    return f"<pre>{escape(value)}</pre>" if name == "command" else escape(value)


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
