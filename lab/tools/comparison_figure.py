"""docs/images/comparison.png: every method in the world `paper`, from results/."""

from __future__ import annotations

import json
from pathlib import Path

import comparison_tables

from mechtrace import plot

ROOT = Path(__file__).parents[1]
paths = sorted((ROOT / "results").glob("compare-paper-2000*.json"))
files = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
# a method of several files counts as in the last, and the oracle is the same in all
rows = {row["method"]: row for result in files for row in result["summary"]}
cells = [row for result in files for row in result["rows"] if row["method"] != "oracle"]
cells += [row for row in files[0]["rows"] if row["method"] == "oracle"]
whole = files[0] | {
    "summary": sorted(rows.values(), key=comparison_tables.rank),
    "rows": cells,
    "methods": {name: about for result in files for name, about in result["methods"].items()},
}
figure = plot.comparison(whole)[0].figure
figure.savefig(ROOT / "docs" / "images" / "comparison.png", dpi=110, bbox_inches="tight")
