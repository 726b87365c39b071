"""What a diagnosis consists of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

Level = Literal["good", "caution", "bad"]
VERDICTS = {"good": "trust", "caution": "caution", "bad": "do not trust"}


def graded(value: float, caution: float, bad: float) -> Level:
    """Level of a value that should be small.

    >>> graded(2.0, caution=1.0, bad=3.0)
    'caution'
    """
    return "bad" if value > bad else "caution" if value > caution else "good"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    code: str
    level: Level
    value: float
    threshold: float
    meaning: str
    next_step: str = ""

    def __str__(self) -> str:
        advice = f" -> {self.next_step}" if self.next_step and self.level != "good" else ""
        return f"{self.level:8}{self.code} = {self.value:.3g}: {self.meaning}{advice}"


@dataclass(frozen=True)
class Diagnosis:
    """All findings about one curve, and the verdict: that of the worst of them."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """trust, caution or do not trust."""
        order: tuple[Level, ...] = ("bad", "caution", "good")
        found = {finding.level for finding in self.findings}
        return VERDICTS[next((level for level in order if level in found), "good")]

    def __getitem__(self, code: str) -> Finding:
        return next(finding for finding in self.findings if finding.code == code)

    def to_frame(self) -> pd.DataFrame:
        """One row per finding."""
        import pandas as pd

        return pd.DataFrame([asdict(finding) for finding in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict}"]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.by_weight())])

    def plot(self, ax: Any = None) -> Any:
        """Draw every finding against its limit; returns matplotlib axes."""
        from ..plot import diagnosis

        return diagnosis(self, ax)

    def _repr_html_(self) -> str:
        from ..notebook import diagnosis_html

        return diagnosis_html(self)

    def by_weight(self) -> list[Finding]:
        """The findings, the worst first."""
        order = {"bad": 0, "caution": 1, "good": 2}
        return sorted(self.findings, key=lambda finding: order[finding.level])
