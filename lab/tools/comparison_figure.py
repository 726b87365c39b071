"""docs/images/comparison.png: every method in the world `paper`, from lab/results/."""

from __future__ import annotations

import comparison_tables
from project_files import matching, read, save

from mechtrace_lab import plot

files = [read(path) for path in matching("compare-paper-2000*")]
# a method of several files counts as in the last, and the oracle is the same in all
rows = {row["method"]: row for result in files for row in result["summary"]}
cells = [row for result in files for row in result["rows"] if row["method"] != "oracle"]
cells += [row for row in files[0]["rows"] if row["method"] == "oracle"]
whole = files[0] | {
    "summary": sorted(rows.values(), key=comparison_tables.rank),
    "rows": cells,
    "methods": {name: about for result in files for name, about in result["methods"].items()},
}
save(plot.comparison(whole)[0].figure, "comparison", bbox_inches="tight")
