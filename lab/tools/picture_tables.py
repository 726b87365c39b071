"""Tables about learning from pixels for docs/results.md."""

from __future__ import annotations

from typing import Any

from project_files import matching, read, section

from mechtrace.config import FitConfig


def cartpole() -> str:
    """The cart with a pole, learned from its pictures: one line for each world."""
    results = [read(path) for path in matching("cartpole-*")]
    lines = []
    for result in results:
        size = f"{result['series_per_regime']:,}, {result['size']} x {result['size']}"
        for row in result["rows"]:
            lines.append((size, row["seed"], *_world(row), result["machine"]))
        lines.append((size, "mean", *_world(result["means"]), ""))
    return section(
        "## Pictures of a cart with a pole",
        "World `cartpole` (section 6.3 of the paper): pictures show x and theta, not v and omega."
        " MCC of (x, theta) after (before) alignment; pooled correlation of 200 transitions and"
        " mean over 50 single ones, with the oracle in brackets, which sees the whole state. R2 of"
        " v / omega: what latents tell of them; in brackets what the true x and theta of the last"
        " 20 steps tell (by a linear map), so that little is left to be seen, and a single film"
        " says little about a mechanism that acts on speeds. The active regimes are the first so"
        " many.",
        ("series of each regime", "world", "MCC", "R2 of v / omega", "3 active, pooled", "single",
         "5 active, pooled", "Algorithm 1, 3 active", "seconds", "machine"),
        lines,
        f"`{'` and with `'.join(map(_command, results))}`",
    )  # fmt: skip


def _world(row: dict[str, Any]) -> tuple[str, ...]:
    three, five = (
        next(part for part in row["recovery"] if part["active"] == count) for count in (3, 5)
    )
    reached = " / ".join(f"{row['r2'][name]:.2f}" for name in ("v", "omega"))
    possible = " / ".join(f"{share:.2f}" for share in row.get("r2_possible", {}).values())
    reached += f" ({possible})" if possible else ""
    return (
        f"{row['mcc']:.3f} ({row['mcc_before']:.2f})", reached,
        f"{three['pooled']:.3f} ({three['oracle_pooled']:.3f})",
        f"{three['single']:.2f} ({three['oracle_single']:.2f})",
        f"{five['pooled']:.3f} ({five['oracle_pooled']:.3f})",
        f"{three['algorithm1_pooled']:.3f}", f"{row['seconds']:.0f}",
    )  # fmt: skip


def _command(result: dict[str, Any]) -> str:
    steps, usual = result["settings"]["steps"], FitConfig().steps
    return (
        f"mechtrace bench cartpole --series {result['series_per_regime']}"
        f" --size {result['size']} --seeds {len(result['rows'])} --first {result['first']}"
        + (f" --steps {steps}" if steps != usual else "")
    )
