"""Findings and the diagnosis they form."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from .._runtime.lazy import render

if TYPE_CHECKING:
    import pandas as pd

#: `untestable`: no data can show it; no value, and no influence on the verdict.
Level = Literal["good", "caution", "bad", "untestable"]
#: Verdict by the worst level, the worst first.
VERDICTS = {"bad": "do not trust", "caution": "caution", "good": "trust"}
#: Findings that say how wrong the curve may be. Where there are any, they alone give the verdict;
#: the others explain it, and tell what to look at.
DECISIVE = ("evidence", "sensors", "expected error", "unexplained steps")

#: Levels of findings that need no attention, which are only listed.
FOLDED = ("good", "untestable")


def graded(value: float, caution: float, bad: float) -> Level:
    """Grade a value that should be small.

    >>> graded(2.0, caution=1.0, bad=3.0)
    'caution'
    """
    return "bad" if value > bad else "caution" if value > caution else "good"


def rounded(value: float) -> str:
    """Format a figure as everywhere in mechtrace: two digits, whole numbers from ten on.

    >>> rounded(0.0834), rounded(0.7), rounded(3.46), rounded(1234.6), rounded(float("nan"))
    ('0.083', '0.70', '3.5', '1,235', 'unknown')
    """
    if not isfinite(value):
        return "unknown"
    steps = ((9.95, ",.0f"), (0.995, ".1f"), (0.0995, ".2f"))
    return format(value, next((form for least, form in steps if abs(value) >= least), ".2g"))


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Parameters
    ----------
    code : str
        Name of the check.
    level : {"good", "caution", "bad", "untestable"}
        Its grade.
    value, threshold : float
        What was measured, and the limit of "good".
    meaning : str
        The result in a sentence.
    next_step : str
        What to do unless it is good.
    side : {"at most", "at least"}
        On which side of the limit it is good.
    """

    code: str
    level: Level
    value: float
    threshold: float
    meaning: str
    next_step: str = ""
    side: Literal["at most", "at least"] = "at most"

    @property
    def shown(self) -> str:
        """The value as text; a dash if there is none."""
        return "–" if self.level == "untestable" else rounded(self.value)

    @property
    def limit(self) -> str:
        """The limit with its side, as "at most 0.4"; empty if there is none."""
        return f"{self.side} {self.threshold:.3g}" if isfinite(self.threshold) else ""

    def __str__(self) -> str:
        advice = f" -> {self.next_step}" if self.next_step and self.level != "good" else ""
        value = f" = {self.shown}" if self.level != "untestable" else ""
        return f"{self.level:11}{self.code}{value}: {self.meaning}{advice}"


def at_most(
    code: str, value: float, limit: float, bad: float, meaning: str, next_step: str
) -> Finding:
    """Return the finding about a value that should be at most `limit`, and is bad above `bad`."""
    return Finding(code, graded(value, limit, bad), value, limit, meaning, next_step)


@dataclass(frozen=True)
class Diagnosis:
    """All findings about one trajectory; the worst of the decisive ones gives the verdict.

    Parameters
    ----------
    name : str
        Name of the recording.
    findings : tuple of Finding
        Look one up by its code: `diagnosis["separation"]`.
    """

    name: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """One of "trust", "caution" and "do not trust"."""
        found = {finding.level for finding in self.decisive()}
        return next((name for level, name in VERDICTS.items() if level in found), "trust")

    def decisive(self) -> list[Finding]:
        """List the findings that give the verdict, the worst first; all, if none is decisive."""
        found = self.by_weight()
        return [finding for finding in found if finding.code in DECISIVE] or found

    def __getitem__(self, code: str) -> Finding:
        return next(finding for finding in self.findings if finding.code == code)

    @property
    def expected_error(self) -> float:
        """Expected mean absolute error of the shares; NaN where nothing can be told."""
        found = (one.value for one in self.findings if one.code == "expected error")
        return float("nan") if self.off else next(found, float("nan"))

    @property
    def off(self) -> Finding | None:
        """The finding by which the input itself is off, so that nothing can be told from it."""
        found = (one for one in self.findings if one.code == "sensors" and one.level == "bad")
        return next(found, None)

    def pressing(self) -> list[Finding]:
        """List the findings that need attention, the worst first."""
        return [finding for finding in self.by_weight() if finding.level in ("bad", "caution")]

    def to_frame(self) -> pd.DataFrame:
        """Tabulate the findings, one row each."""
        import pandas as pd

        return pd.DataFrame([asdict(finding) for finding in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain types for JSON, NaN to None."""
        findings = [asdict(finding) for finding in self.by_weight()]
        for finding in findings:
            for key in ("value", "threshold"):
                finding[key] = finding[key] if isfinite(finding[key]) else None
            finding["decisive"] = finding["code"] in DECISIVE
        error = self.expected_error if isfinite(self.expected_error) else None
        return {
            "name": self.name, "verdict": self.verdict, "expected_error": error,
            "findings": findings,
        }  # fmt: skip

    def __str__(self) -> str:
        error = self.expected_error
        about = f"; shares are likely within {rounded(error)}" if isfinite(error) else ""
        lines = [f"{self.name}: {self.verdict}{about}", *(f"  {one}" for one in self.pressing())]
        for level in FOLDED:
            codes = [one.code for one in self.findings if one.level == level]
            lines += [f"  {level:11}{', '.join(codes)}"] if codes else []
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw each finding against its limit; returns matplotlib axes."""
        return render("diagnosis_plot", self, ax)

    def _repr_html_(self) -> str:
        return render("html", self)

    def by_weight(self) -> list[Finding]:
        """Sort the findings, the worst first, and decisive ones before others."""
        order = {"bad": 0, "caution": 1, "good": 2, "untestable": 3}
        return sorted(self.findings, key=lambda f: (order[f.level], f.code not in DECISIVE))
