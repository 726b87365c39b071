"""Which findings of the paper its own Algorithm 1 shows again, judged by the measured tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mechtrace_lab.reproduction.side_by_side import Measured

Lines = Mapping[str, Sequence[Measured]]
WHO = "algorithm1"
#: A difference of correlations that nobody would act on.
SMALL = 0.05


@dataclass(frozen=True)
class Finding:
    """What the paper finds, the figures that tell, and why they may tell otherwise here."""

    words: str
    table: str
    cells: tuple[tuple[str, str], ...]  # rows and columns
    holds: Callable[..., bool]  # of the figures of these cells
    why: str = ""  # shown if it does not hold
    who: tuple[str, ...] = ()  # whose figures, if not Algorithm 1's throughout

    def row(self, lines: Lines) -> str | None:
        """A line of the table; None if one of the figures is not measured."""
        whose = self.who or (WHO,) * len(self.cells)
        known = {
            (line.entry.row, line.entry.column, who): figure.value
            for line in lines.get(self.table, ())
            for who, (figure, _) in line.found.items()
        }
        wanted = [(*cell, who) for cell, who in zip(self.cells, whose, strict=True)]
        if not all(cell in known for cell in wanted):
            return None
        values = [known[cell] for cell in wanted]
        shown = self.holds(*values)
        figures = ", ".join(f"{value:.3g}" for value in values)
        return f"| {self.words} | {'yes' if shown else '**no**'} | {figures} | " + (
            "" if shown else self.why
        ) + " |"  # fmt: skip


def _cells(column: str, *rows: str) -> tuple[tuple[str, str], ...]:
    return tuple((row, column) for row in rows)


FINDINGS = (
    Finding(
        "More noise, larger raw errors (noise 0.01, 0.1, 0.5)", "noise",
        _cells("MAE raw", "noise 0.01", "noise 0.1", "noise 0.5"), lambda a, b, c: a < b < c,
        "Noise averages out over hundreds of trials; what is left is the error of the basis,"
        " and delta_approx / sigma_min falls as noise grows.",
    ),
    Finding(
        "Errors below the bound of Theorem 2", "theorems",
        _cells("below the bound", "noise 0.01", "noise 0.5", "edge 0.1"),
        lambda *shares: min(shares) == 1,
    ),
    Finding(
        "Regimes that differ more are recovered better (edge 0.1, 0.7)", "perturbation",
        _cells("corr", "edge 0.1", "edge 0.7"), lambda a, b: a < b,
    ),
    Finding(
        "Two known points repair the scale (raw, calibrated error; noise 0.1)", "noise",
        (("noise 0.1", "MAE raw"), ("noise 0.1", "MAE calibrated")), lambda a, b: b < a,
    ),
    Finding(
        "More active regimes are harder (2, 5, 10; simple)", "scaling",
        _cells("simple", "alpha, 2 active", "alpha, 5 active", "alpha, 10 active"),
        lambda a, b, c: a > b > c,
    ),
    Finding(
        "Complex schedules are harder (5 active: simple, complex)", "scaling",
        (("alpha, 5 active", "simple"), ("alpha, 5 active", "complex")), lambda a, b: a > b,
    ),
    Finding(
        "W(t) stays right where alpha does not (W, alpha; 7 active, complex)", "scaling",
        (("W, 7 active", "complex"), ("alpha, 7 active", "complex")),
        lambda w, alpha: w > 0.95 and alpha < w - SMALL,
    ),
    Finding(
        "A moderate window is best (w = 0, 5, 10; all trials)", "window",
        _cells("corr", "w = 0", "w = 5", "w = 10"), lambda a, b, c: b > max(a, c),
        "The mean of all trials has nothing left to smooth away, so that a window only blurs.",
    ),
    Finding(
        "A moderate window is best (w = 0, 3, 10; of 10 trials)", "window",
        _cells("corr", *(f"w = {w}, of 10 trials" for w in (0, 3, 10))),
        lambda a, b, c: b > max(a, c),
    ),
    Finding(
        "Ten learned regimes do as well as five (5 active, simple: K = 5, 10)", "capacity",
        _cells("simple", "K = 5, 5 active", "K = 10, 5 active"), lambda a, b: b > a - SMALL,
    ),
    Finding(
        "A tenth of the data is nearly enough, a hundredth is not (100, 10, 1 %)", "samples",
        _cells("3 active", *(f"{n:,} per regime" for n in (40_000, 4_000, 400))),
        lambda a, b, c: b > a - SMALL and c < a,
    ),
    Finding(
        "Fifty regimes: more latents help (d = 8, 16, 128)", "beyond",
        _cells("corr", *(f"d = {d}, dense" for d in (8, 16, 128))), lambda a, b, c: a < b < c,
    ),
    Finding(
        "Stage 1 alone fails on transitions, two stages do not (20 steps, two stages)", "ood",
        (("OOD, stage 1 only (20 steps)", "corr"), ("OOD, two stages", "corr")),
        lambda a, b: b > a + SMALL, who=("other", WHO),
    ),
    Finding(
        "Impure regimes cost little (0, 20, 50 %)", "impurity",
        _cells("corr", *(f"impurity {share}%" for share in (0, 20, 50))),
        lambda a, b, c: c > a - 2 * SMALL,
        "Here all edges of a regime change, as impurity needs mechanisms to mix, and the constant"
        " basis fails without any impurity. Our default, which looks at mechanisms, does not.",
    ),
    Finding(
        "Duplicates that take no part do no harm (none, two)", "misspecified",
        _cells("corr", "as many as there are", "two duplicates, not active"),
        lambda a, b: b > a - SMALL,
    ),
    Finding(
        "Duplicates that take part do (none, two)", "misspecified",
        _cells("corr", "as many as there are", "two duplicates, active"),
        lambda a, b: b < a - SMALL,
        "Algorithm 1 is told which regimes take part, as in all tables, so their twins are not"
        " offered to it. Our default is told nothing and splits a share between twins; correlation"
        " does not see a constant factor.",
    ),
    Finding(
        "Averages that take part do (none, two)", "misspecified",
        _cells("corr", "as many as there are", "two averages, active"),
        lambda a, b: b < a - SMALL,
    ),
    Finding(
        "Regimes that were never learned cannot be recovered", "misspecified",
        _cells("corr", "two too few, unseen regimes"), lambda a: a < 0.5,
    ),
    Finding(
        "The simplex changes little (simplex, free)", "simplex",
        _cells("pooled", "simplex", "free"), lambda a, b: abs(a - b) < SMALL,
    ),
    Finding(
        "The KS test passes valid transitions (p in `paper`, `laplace`, `linear-gaussian`)",
        "assumption",
        _cells("p of the KS test, all steps",
               *(f"{world}, valid" for world in ("paper", "laplace", "linear-gaussian"))),
        lambda *p: min(p) > 0.05,
        "Residuals of neighbouring steps depend on each other, and mean states lag behind a"
        " mixture of means in every transition.",
    ),
    Finding(
        "and refuses an emergent edge", "assumption",
        _cells("p of the KS test, all steps",
               *(f"{world}, emergent edge" for world in ("paper", "laplace", "linear-gaussian"))),
        lambda *p: max(p) < 0.001,
    ),
)  # fmt: skip


def findings(lines: Lines) -> str:
    """As a section; empty if nothing is measured."""
    rows = [row for finding in FINDINGS if (row := finding.row(lines))]
    if not rows:
        return ""
    head = [
        "## What Algorithm 1 shows again",
        "",
        "The paper's findings about its own procedure, judged by the tables below: the figures of"
        " Algorithm 1 in the order named, and the reason where they do not bear it out.",
        "",
        "| finding | shown | figures | why not |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])
