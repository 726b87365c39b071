"""Tables about other methods for docs/results.md: the comparison, their homes, their speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mechtrace.baselines.printed import PRINTED
from mechtrace.paper import tables

RESULTS = Path(__file__).parent.parent / "results"


def comparison() -> str:
    """Every method in the world `paper`."""
    files = [_read(path) for path in sorted(RESULTS.glob("compare-paper-2000*.json"))]
    if not files:
        return ""
    of_method: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for result in files:
        for row in result["summary"]:
            of_method[row["method"]] = (row, result)
    data = files[0]["configuration"]["data"]
    budget = files[0]["configuration"]["settings"]["transitions"]
    lines = [
        "## Other methods, side by side",
        "",
        f"World `paper`, {data['series']:,} recordings of each of {data['regimes']} regimes, every"
        f" trained method shown {budget / 1e6:.0f} million transitions; a `simple` transition over"
        f" {data['active']} regimes, {data['trials']} trials; mean +- standard deviation over"
        f" {files[0]['configuration']['seeds']} fresh worlds. *Pooled*: one curve of all trials;"
        " *single*: of one recording. *MCC* for t >= L on new pure recordings, with the weights"
        " that the method's own validation loss selects, and with those that the truth would"
        " select. *Paper*: its Table 1 (weight correlation, MCC). NA: no such answer. What each"
        " method is, and how it was kept fair: [the competition](explanation/competition.md).",
        "",
        "| method | pooled | single | MCC | MCC, oracle-selected | states right | paper |"
        " seconds | memory MB | machine |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (row, result) in sorted(of_method.items(), key=lambda item: rank(item[1][0])):
        own, chosen = row["figures"], row["oracle_selected"]
        cells = [_spread(own[key]) for key in ("pooled", "single", "mcc")]
        cells += [_spread(chosen["mcc"]), _spread(own["accuracy"])]
        paper = tables.METHODS.get(name, ())
        printed = " / ".join(f"{x.value:.2f} +- {x.spread:.2f}" if x else "NA" for x in paper)
        title = result["methods"].get(name, {}).get("title", "oracle: true latents, our engine")
        lines.append(
            f"| {title} | {' | '.join(cells)} | {printed} | {row['seconds']['mean']:.0f} |"
            f" {row['memory_mb']['mean']:,.0f} | {result['machine']} |"
        )
    lines += ["", *(f"`{_command(result)}`" + "  " for result in files)]
    return "\n".join(lines).rstrip() + "\n"


def homes() -> str:
    """Every method in its authors' own world."""
    rows = [_read(path) for path in sorted((RESULTS / "homes").glob("*.json"))]
    if not rows:
        return ""
    lines = [
        "### In their authors' own worlds",
        "",
        "Our versions where the methods were first shown (`worlds.peers`); MCC for t >= L on new"
        " recordings, each seed a fresh world. *Printed*: the authors' figure and where it was"
        " read. States: share of the steps whose hidden state is right, after the best naming.",
        "",
        "| method | MCC (lowest) | oracle-selected | states right | worlds | shown | seconds |"
        " printed | machine |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in sorted({row["method"] for row in rows}):
        mine = _of_one_recipe([row for row in rows if row["method"] == name])
        own, chosen = ([row[key] for row in mine] for key in ("mcc", "mcc_oracle"))
        states = [row["accuracy"] for row in mine if row["accuracy"] is not None]
        lines.append(
            f"| {name} | {_mean(own):.3f} ({min(own):.3f}) | {_mean(chosen):.3f} |"
            f" {f'{_mean(states):.1%}' if states else 'NA'} | {len(mine)} |"
            f" {_shown(mine[0]['home'], mine[0]['share'])} |"
            f" {_mean([row['seconds'] for row in mine]):.0f} |"
            f" {_printed(name, mine[0]['home']['world'])} | {mine[0]['machine']} |"
        )
    lines += ["", "`mechtrace bench homes`"]
    return "\n".join(lines) + "\n"


def speed() -> str:
    """How fast competitors train."""
    path = RESULTS / "competitor-speed-cpu.json"
    if not path.exists():
        return ""
    lines = [
        "### How fast they train",
        "",
        "Transitions per second on one core, d = 8, 8 channels, 2 lags. *Literal*: the same loss"
        " computed as its equations read, networks one by one with whole Jacobian matrices (the"
        " tests compare both). *Authors*: their own code, measured beforehand.",
        "",
        "| method | ours | literal | ratio | authors' code | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in _read(path)["rows"]:
        authors = row["authors"]
        theirs = f"{authors:,} | {row['ours'] / authors:,.0f}" if authors else "not measured |"
        lines.append(
            f"| {row['method']} | {row['ours']:,.0f} | {row['literal']:,.0f} |"
            f" {row['ours'] / row['literal']:,.0f} | {theirs} |"
        )
    lines += ["", "`python tools/competitor_speed.py`"]
    return "\n".join(lines) + "\n"


def _shown(home: dict[str, Any], share: float) -> str:
    """What was trained: all that the authors do, or a share of it."""
    part = "" if share == 1 else f"{share:.0%} of "
    return f"{share * home['transitions'] / 1e6:g} M transitions ({part}{home['passes']})"


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


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
        for row in PRINTED
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


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
