"""Directives that ask the code itself, so that pages cannot go stale.

`commands` is the help of every command, `settings` a table of what can be set.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mechtrace.cli.main import app
from mechtrace.config import FitConfig, ModelConfig


def helps() -> Iterator[tuple[str, str]]:
    """Every command, groups before their members, with the text of its --help."""
    group = typer.main.get_command(app)
    waiting = [("mechtrace", group)]
    while waiting:
        path, command = waiting.pop(0)
        yield path, help_of(group, path)
        members = getattr(command, "commands", {})
        waiting[:0] = [(f"{path} {name}", member) for name, member in members.items()]


def help_of(group: Any, path: str) -> str:
    """What `path --help` prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        group([*path.split()[1:], "--help"], prog_name="mechtrace", standalone_mode=False)
    return said.getvalue().rstrip()


class Commands(SphinxDirective):
    """One section with the help text for each command."""

    def run(self) -> list[nodes.Node]:
        """Build the sections."""
        found: list[nodes.Node] = []
        for path, text in helps():
            section = nodes.section(ids=[nodes.make_id(path)], names=[path])
            section += nodes.title(path, path)
            section += nodes.literal_block(text, text, language="text")
            self.state.document.note_implicit_target(section, section)
            found.append(section)
        return found


class Settings(SphinxDirective):
    """One table with the name, default and meaning of each setting."""

    def run(self) -> list[nodes.Node]:
        """Build the table from the fields of the two configurations."""
        lines = ["| table | setting | default | meaning |", "|---|---|---|---|"]
        for table, config in (("model", ModelConfig), ("fit", FitConfig)):
            lines += [
                f"| `[{table}]` | `{f.name}` | `{f.default!r}` | {f.metadata['meaning']} |"
                for f in fields(config)
            ]
        return self.parse_text_to_nodes("\n".join(lines))


def readable(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: Any
) -> tuple[str | None, Any]:
    """A default that is made afresh has no value that could be parsed: show three dots."""
    return signature and signature.replace("<factory>", "..."), returned


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("commands", Commands)
    app.add_directive("settings", Settings)
    app.connect("autodoc-process-signature", readable)
    return {"parallel_read_safe": True}
