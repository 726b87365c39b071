"""Put rows of results/compare-paper-2000*.json where `mechtrace reproduce methods` looks for them.

Both run the same cells, so what was compared need not be computed again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mechtrace.jobs import FINISHED
from mechtrace.paper.contestants import Contestant
from mechtrace.paper.models import SCALES
from mechtrace.paper.plan import asked

ROOT = Path(__file__).parent.parent
#: File and method: measured with another batch of its recipe than it has now. What a row says of
#: itself does not show that: it knows the batch that was asked for, and none was.
CHANGED = (("compare-paper-2000-h200", "ivae"),)


def keep(results: Path, folder: Path) -> list[str]:
    """Split the compared rows into files in `folder`; the stems of those that were taken."""
    known = {one.method for one in asked(["methods"]) if isinstance(one, Contestant)}
    taken = []
    for path in sorted(results.glob("compare-paper-2000*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            method = row["method"]
            if row["status"] != FINISHED or method not in known or (path.stem, method) in CHANGED:
                continue
            device = row["settings"]["device"]
            job = Contestant(method).job(SCALES["paper"], row["seed"], device)
            about = json.loads(json.dumps(job.about()))
            if {key: row[key] for key in about} == about:
                job.keep(folder, row)
                taken.append(job.stem)
    return taken


if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results" / "paper"
    (out / "paper").mkdir(parents=True, exist_ok=True)
    print(*keep(ROOT / "results", out / "paper"), sep="\n")
