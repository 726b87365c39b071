"""Copy rows of compare-paper-2000*.json to where `mechtrace reproduce methods` looks for them.

Both run the same cells, so what was compared need not be computed again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from project_files import RESULTS, read

from mechtrace_lab.jobs import FINISHED
from mechtrace_lab.reproduction.compared_methods import ComparedMethod
from mechtrace_lab.reproduction.models import SCALES
from mechtrace_lab.reproduction.plan import measure_calls

#: File and method: measured with another batch of its recipe than it has now. What a row says of
#: itself does not show that: it knows the batch that was asked for, and none was.
CHANGED = (("compare-paper-2000-h200", "ivae"),)


def copy_rows(results: Path, folder: Path) -> list[str]:
    """Split the compared rows into files in `folder`; the stems of those that were taken."""
    known = {one.method for one in measure_calls(["methods"]) if isinstance(one, ComparedMethod)}
    taken = []
    for path in sorted(results.glob("compare-paper-2000*.json")):
        for row in read(path)["rows"]:
            method = row["method"]
            if row["status"] != FINISHED or method not in known or (path.stem, method) in CHANGED:
                continue
            device = row["settings"]["device"]
            job = ComparedMethod(method).job(SCALES["paper"], row["seed"], device)
            about = json.loads(json.dumps(job.about()))
            if {key: row[key] for key in about} == about:
                job.store(folder, row)
                taken.append(job.stem)
    return taken


if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "paper"
    (out / "paper").mkdir(parents=True, exist_ok=True)
    print(*copy_rows(RESULTS, out / "paper"), sep="\n")
