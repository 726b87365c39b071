"""Tables about learning from pixels for docs/results.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mechtrace.config import FitConfig

RESULTS = Path(__file__).parents[1] / "results"


def cartpole() -> str:
    """The cart with a pole, learned from its pictures: one line for each world."""
    files = sorted(RESULTS.glob("cartpole-*.json"))
    if not files:
        return ""
    lines = [
        "## Pictures of a cart with a pole",
        "",
        "World `cartpole` (section 6.3 of the paper): pictures show x and theta, not v and omega."
        " MCC of (x, theta) after (before) alignment; pooled correlation of 200 transitions and"
        " mean over 50 single ones, with the oracle in brackets, which sees the whole state. R2 of"
        " v / omega: what latents tell of them; in brackets what the true x and theta of the last"
        " 20 steps tell (by a linear map), so that little is left to be seen, and a single film"
        " says little about a mechanism that acts on speeds. The active regimes are the first so"
        " many.",
        "",
        "| series of each regime | world | MCC | R2 of v / omega | 3 active, pooled | single |"
        " 5 active, pooled | Algorithm 1, 3 active | seconds | machine |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for path in files:
        result = json.loads(path.read_text(encoding="utf-8"))
        size = f"{result['series_per_regime']:,}, {result['size']} x {result['size']}"
        for row in result["rows"]:
            lines.append(f"| {size} | {row['seed']} | {_world(row)} | {result['machine']} |")
        lines.append(f"| {size} | mean | {_world(result['means'])} | |")
    first = "` and with `".join(_command(path) for path in files)
    return "\n".join([*lines, "", f"`{first}`", ""])


def _world(row: dict[str, Any]) -> str:
    three, five = (
        next(part for part in row["recovery"] if part["active"] == count) for count in (3, 5)
    )
    reached = " / ".join(f"{row['r2'][name]:.2f}" for name in ("v", "omega"))
    possible = " / ".join(f"{share:.2f}" for share in row.get("r2_possible", {}).values())
    reached += f" ({possible})" if possible else ""
    return (
        f"{row['mcc']:.3f} ({row['mcc_before']:.2f}) | {reached} | {three['pooled']:.3f}"
        f" ({three['oracle_pooled']:.3f}) | {three['single']:.2f} ({three['oracle_single']:.2f}) |"
        f" {five['pooled']:.3f} ({five['oracle_pooled']:.3f}) | {three['algorithm1_pooled']:.3f} |"
        f" {row['seconds']:.0f}"
    )


def _command(path: Path) -> str:
    result = json.loads(path.read_text(encoding="utf-8"))
    steps, usual = result["settings"]["steps"], FitConfig().steps
    return (
        f"mechtrace bench cartpole --series {result['series_per_regime']}"
        f" --size {result['size']} --seeds {len(result['rows'])} --first {result['first']}"
        + (f" --steps {steps}" if steps != usual else "")
    )
