"""Tables about other methods for docs/results.md: quality, own benchmarks, speed."""

from __future__ import annotations

import json
from typing import Any

from project_files import load, matching, mean, mean_of, read, section

from mechtrace_lab.baselines.published_results import PUBLISHED
from mechtrace_lab.reproduction import tables


def comparison() -> str:
    """Every method in the world `paper`."""
    files = [read(path) for path in matching("compare-paper-2000*")]
    of_method: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for result in files:
        for row in result["summary"]:
            of_method[row["method"]] = (row, result)
    data = files[0]["configuration"]["data"]
    budget = files[0]["configuration"]["settings"]["transitions"]
    lines = []
    for name, (row, result) in sorted(of_method.items(), key=lambda item: rank(item[1][0])):
        own, chosen = row["figures"], row["oracle_selected"]
        cells = [_spread(own[key]) for key in ("pooled", "single", "mcc")]
        cells += [_spread(chosen["mcc"]), _spread(own["accuracy"])]
        paper = tables.METHODS.get(name, ())
        printed = " / ".join(f"{x.value:.2f} +- {x.spread:.2f}" if x else "NA" for x in paper)
        title = result["methods"].get(name, {}).get("title", "oracle: true latents, our engine")
        lines.append(
            (
                title, *cells, printed, f"{row['seconds']['mean']:.0f}",
                f"{row['memory_mb']['mean']:,.0f}", result["machine"],
            )
        )  # fmt: skip
    return section(
        "## Other methods, side by side",
        f"World `paper`, {data['series']:,} recordings of each of {data['regimes']} regimes, every"
        f" trained method shown {budget / 1e6:.0f} million transitions; a `simple` transition over"
        f" {data['active']} regimes, {data['trials']} trials; mean +- standard deviation over"
        f" {files[0]['configuration']['seeds']} fresh worlds. *Pooled*: one curve of all trials;"
        " *single*: of one recording. *MCC* for t >= L on new pure recordings, with the weights"
        " that the method's own validation loss selects, and with those that the truth would"
        " select. *Paper*: its Table 1 (weight correlation, MCC). NA: no such answer. What each"
        " method is, and how it was kept fair: [the competition](explanation/competition.md).",
        ("method", "pooled", "single", "MCC", "MCC, oracle-selected", "states right", "paper",
         "seconds", "memory MB", "machine"),
        lines,
        "  \n".join(f"`{_command(result)}`" for result in files),
    )  # fmt: skip


def own_benchmarks() -> str:
    """Every method in its authors' own world."""
    rows = [read(path) for path in matching("homes/*")]
    lines = []
    for name in sorted({row["method"] for row in rows}):
        mine = _of_one_recipe([row for row in rows if row["method"] == name])
        own, chosen = ([row[key] for row in mine] for key in ("mcc", "mcc_oracle"))
        states = [row["accuracy"] for row in mine if row["accuracy"] is not None]
        lines.append(
            (
                name, f"{mean(own):.3f} ({min(own):.3f})", f"{mean(chosen):.3f}",
                f"{mean(states):.1%}" if states else "NA", len(mine),
                _shown(mine[0]["home"], mine[0]["share"]), f"{mean_of(mine, 'seconds'):.0f}",
                _printed(name, mine[0]["home"]["world"]), mine[0]["machine"],
            )
        )  # fmt: skip
    return section(
        "### In their authors' own worlds",
        "Our versions where the methods were first shown (`worlds.peers`); MCC for t >= L on new"
        " recordings, each seed a fresh world. *Printed*: the authors' figure and where it was"
        " read. States: share of the steps whose hidden state is right, after the best naming.",
        ("method", "MCC (lowest)", "oracle-selected", "states right", "worlds", "shown",
         "seconds", "printed", "machine"),
        lines,
        "`mechtrace bench homes`",
    )  # fmt: skip


def speed() -> str:
    """How fast competitors train."""
    lines = []
    for row in load("competitor-speed-cpu")["rows"]:
        ours, literal, authors = (row[key] for key in ("ours", "literal", "authors"))
        theirs = (f"{authors:,}", f"{ours / authors:,.0f}") if authors else ("not measured", "")
        numbers = (f"{number:,.0f}" for number in (ours, literal, ours / literal))
        lines.append((row["method"], *numbers, *theirs))
    return section(
        "### How fast they train",
        "Transitions per second on one core, d = 8, 8 channels, 2 lags. *Literal*: the same loss"
        " computed as its equations read, networks one by one with whole Jacobian matrices (the"
        " tests compare both). *Authors*: their own code, measured beforehand.",
        ("method", "ours", "literal", "ratio", "authors' code", "ratio"),
        lines,
        "`python lab/tools/competitor_speed.py`",
    )


def _shown(home: dict[str, Any], share: float) -> str:
    """What was trained: all that the authors do, or a share of it."""
    part = "" if share == 1 else f"{share:.0%} of "
    return f"{share * home['transitions'] / 1e6:g} M transitions ({part}{home['passes']})"


def rank(row: dict[str, Any]) -> tuple[bool, float, float]:
    """The oracle first, then by weight correlation, then by MCC."""
    known = [row["figures"][key]["mean"] for key in ("pooled", "mcc")]
    pooled, mcc = (-1.0 if value is None else value for value in known)
    return row["method"] != "oracle", -pooled, -mcc


def _spread(figure: dict[str, Any]) -> str:
    if figure["mean"] is None:
        return "NA"
    return f"{figure['mean']:.3f} +- {figure['sd'] or 0:.3f}"


def _of_one_recipe(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that learned in the same way: the longest, and of these what most worlds show."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        recipe = json.dumps([row["home"], row["share"], row["device"]], sort_keys=True)
        alike.setdefault(recipe, []).append(row)
    return max(alike.values(), key=lambda some: (some[0]["share"], len(some)))


def _printed(name: str, world: str) -> str:
    """What the authors print for a method at home."""
    mine = name.partition("-")[0]
    found = [
        f"{row.value:.2f} ({row.metric}; {row.note})"
        for row in PUBLISHED
        if row.method.lower() == mine
        and row.world == world
        and row.value is not None
        and row.spread is None
    ]
    return "; ".join(found) or "not found"


def _command(result: dict[str, Any]) -> str:
    about, data = result["configuration"], result["configuration"]["data"]
    settings = about["settings"]
    command = f"mechtrace compare --world {data['world']} --series {data['series']}"
    command += f" --seeds {about['seeds']} --transitions {settings['transitions']}"
    command += f" --set batch={settings['batch']}" if settings["batch"] else ""
    command += f" --device {settings['device']}" if settings["device"] != "cpu" else ""
    return f"{command} --methods {','.join(about['methods'])}"
