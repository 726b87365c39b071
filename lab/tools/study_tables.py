"""Tables of docs/results.md about studies in simulated worlds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

from project_files import grouped, load, matching, mean, mean_of, read, section

from mechtrace_lab.reproduction import tables

USUAL_STEPS = 3500


def _on_gpu(result: dict[str, Any]) -> str:
    return " --device cuda" if result["settings"]["device"] == "cuda" else ""


def _seconds(rows: Sequence[dict[str, Any]], key: str) -> str:
    seconds = sorted(row[key] for row in rows)
    return f"{seconds[0]:.0f}-{seconds[-1]:.0f}"


def latents() -> str:
    """Quality of the latents."""
    lines = []
    for r in map(read, matching("latents-*")):
        rows, steps, series = r["rows"], r["settings"]["steps"], r["series_per_regime"]
        command = f"mechtrace bench latents --world {r['world']} --seeds {len(rows)}"
        command += f" --series {series}" + (f" --steps {steps}" if steps != USUAL_STEPS else "")
        lines.append(
            (
                r["world"], f"{series:,}", f"{steps:,}", f"{r['r2_mean']:.4f} +- {r['r2_sd']:.4f}",
                f"{r['r2_min']:.4f}", f"{mean_of(rows, 'r2_all_steps'):.4f}",
                f"{mean_of(rows, 'mcc_unaligned'):.2f}", _seconds(rows, "fit_seconds"),
                r["machine"], f"`{command}{_on_gpu(r)}`",
            )
        )  # fmt: skip
    return section(
        "## Latents",
        "Linear R^2 of the true latents from the learned ones, new series, t >= L; mean and"
        " standard deviation over fresh worlds. Before alignment: the MCC is of a rotation.",
        ("world", "series per regime", "steps", "R^2", "lowest", "all t", "MCC (unaligned)",
         "seconds", "machine", "command"),
        lines,
        "The first fit on a GPU includes about 5 s of one-time start-up.",
    )  # fmt: skip


def axes() -> str:
    """Axis alignment."""
    lines = []
    for r in map(read, matching("align-*")):
        means, rows = r["means"], r["rows"]
        edges = means.get("changed_edges_right")
        command = f"mechtrace bench align --world {r['world']} --seeds {len(rows)}"
        command += f" --series {r['series_per_regime']}"
        command += f" --regimes {r['regimes']}" if r["regimes"] != 5 else ""
        lines.append(
            (
                r["world"], r["regimes"], f"{r['series_per_regime']:,}",
                f"{means['mcc']:.3f} ({r['mcc_min']:.3f})", f"{means['mcc_all_steps']:.3f}",
                f"{means['mcc_before']:.2f}",
                f"{sum(row['verdict_right'] for row in rows)} of {len(rows)}",
                f"{means['weight_correlation']:.3f}", "-" if edges is None else f"{edges:.0%}",
                f"{max(row['alpha_moved'] for row in rows):.0e}", _seconds(rows, "seconds"),
                r.get("machine", "one H200"), f"`{command}{_on_gpu(r)}`",
            )
        )  # fmt: skip
    return section(
        "## Axes",
        "After alignment, on new series; means over fresh worlds. *MCC* against the true latents"
        " for t >= L (lowest in brackets), over all steps, and before alignment. *Verdicts*: the"
        " strongest evidence that the world offers is named and none that it does not; in"
        " `paper-positive` just the axes that a change touches are claimed, in `linear-gaussian`"
        " none. *W*: correlation of all entries of W^(k) with the truth after matching and"
        " scaling. *Edges*: regimes whose changed edge is named rightly. *alpha*: largest"
        " difference of alpha(t) with and without alignment. Where only touched axes are"
        " identified, the MCC is that of an arbitrary rotation of the rest, W is average effects,"
        " and an edge that starts in the rest has no name.",
        ("world", "K", "series per regime", "MCC (lowest)", "all t", "before", "verdicts right",
         "W", "edges", "alpha", "seconds", "machine", "command"),
        lines,
        "Runs on the GPU shared it: four or five studies at once.",
    )  # fmt: skip


def recovery() -> str:
    """Quality of alpha(t)."""
    lines = []
    for r in map(read, sorted(matching("recovery-*"), key=_recovery_order)):
        for key, rows in grouped(r["rows"], "active", "schedule", "length").items():
            figures = {
                name: f"{mean_of(rows, name):.3f}"
                for name in ("pooled", "oracle_pooled", "single", "oracle_single",
                             "algorithm1_pooled", "algorithm1_pooled_told_active",
                             "algorithm1_single")
            }  # fmt: skip
            covered = [
                f"{mean_of(rows, name):.2f} ({mean_of(rows, f'oracle_{name}'):.2f})"
                for what in ("pooled", "single")
                for name in (f"cover_{what}", f"cover_{what}_between")
            ]
            told = f"{figures['algorithm1_pooled']} / {figures['algorithm1_pooled_told_active']}"
            lines.append(
                (
                    r["world"], r["regimes"], *key, f"**{figures['pooled']}**",
                    figures["oracle_pooled"], told, f"**{figures['single']}**",
                    figures["oracle_single"], figures["algorithm1_single"], *covered, len(rows),
                )
            )  # fmt: skip
    return section(
        "## Recovery of alpha(t)",
        "Weight correlation (mean Pearson over the active regimes, t >= L), mean over fresh"
        " worlds; 200 recordings share a schedule and are pooled, or taken one by one. *Oracle*:"
        " the same engine with true latents and mechanisms. *Algorithm 1*: the paper's procedure"
        " on the learned latents with all regimes in its basis, and (pooled) told which take part."
        " Cover: share of the true weights inside the 90 % intervals, learned model (oracle);"
        " *between*: only of weights from 0.02 to 0.98, since a weight of exactly 0 lies in every"
        " interval that reaches down to 0.",
        ("world", "K", "active", "schedule", "T", "pooled", "oracle", "algorithm 1 / told",
         "single", "oracle", "algorithm 1", "cover pooled", "between", "cover single", "between",
         "worlds"),
        lines,
        "Commands, each with `--device cuda --json FILE` on one H200 (2,000 training series per"
        " regime): `mechtrace bench recovery --seeds 5`;"
        " `mechtrace bench recovery --world paper-positive --lengths 50,200 --active 3 --seeds 5`;"
        " `mechtrace bench recovery --world laplace --seeds 5`;"
        " `mechtrace bench recovery --regimes 10 --steps 7000 --seeds 5 --active 2,3,4,5,6` and"
        " `--active 7,8,9,10`.",
    )  # fmt: skip


def _recovery_order(path: Path) -> tuple[int, str]:
    names = ("paper-2000", "positive", "k10-low", "k10-high")
    return next((i for i, name in enumerate(names) if name in path.name), 9), path.name


def scaling() -> str:
    """The paper's scaling table with its own procedure."""
    r = load("scaling-paper")
    found, lines = grouped(r["rows"], "active", "schedule"), []
    for count in sorted({active for active, _ in found}):
        cells = []
        for i, name in enumerate(("simple", "medium", "complex")):
            pooled = [row["pooled"] for row in found[count, name]]
            printed = tables.SCALING[count][i].value
            cells.append(f"{mean(pooled):.3f} +- {stdev(pooled):.3f} ({printed:.3f})")
        simple = found[count, "simple"]
        cells += [f"{mean_of(simple, name):.3f}" for name in ("single", "sigma_min")]
        lines.append((count, *cells))
    return section(
        "## Algorithm 1 with true latents: the paper's scaling table",
        f"Weight correlation of the paper's procedure (constant basis, window {r['window']}) on"
        f" the mean of {r['trials']} true latents that share a schedule, {r['regimes']} regimes in"
        f" {r['latents']} latents, the first so many active; mean and standard deviation over"
        f" {r['seeds']} worlds, and what the paper prints. The changed edges of the first six"
        " regimes end in distinct latents, later ones share a target: there the constant means"
        " become collinear (sigma_min). `mechtrace bench scaling`",
        ("active", "simple (printed)", "medium (printed)", "complex (printed)",
         "one recording, simple", "sigma_min"),
        lines,
    )  # fmt: skip


def convexity() -> str:
    """Size and power of the convexity test."""
    lines = []
    for r in map(read, matching("convexity-*")):
        cells = grouped(r["rows"], "strength", "trials", "length", "schedule")
        for (strength, trials, length, schedule), rows in cells.items():
            by_source = grouped(rows, "source")
            learned, oracle = by_source["learned",], by_source["oracle",]
            alarms = [[row["alarms"] for row in some] for some in (learned, oracle)]
            paper = [f"{mean_of(some, 'paper_alarms'):.3f}" for some in (learned, oracle)]
            best = [row["ceiling"] for row in learned if "ceiling" in row]
            where = [row for row in learned if "flagged_inside" in row]
            keys = ("flagged_inside", "flagged_near", "true_share")
            inside = "{:.2f} / {:.2f} ({:.2f})".format(*(mean_of(where, key) for key in keys)) \
                if where else ""  # fmt: skip
            lines.append(
                (
                    r["world"], schedule, length, trials, f"{strength:g}",
                    *(f"{mean(v):.3f} ({min(v):.3f}-{max(v):.3f})" for v in alarms),
                    " / ".join(paper), f"{mean(best):.3f}" if best else "", inside,
                    sum(row["recordings"] for row in learned),
                )
            )  # fmt: skip
    return section(
        "## The convexity test: false alarms and power",
        "Share of recordings with p <= 0.05, mean over fresh worlds of three regimes (lowest to"
        " highest world in brackets). *Edge*: strength of the paper's emergent edge z2 -> z5 while"
        " 0.3 < alpha_1 < 0.7; 0 means a valid transition. *Oracle*: true latents and mechanisms."
        " *KS*: the paper's test on the same recordings, whose false alarms make its power"
        " meaningless. *Best possible*: the most powerful test there is, which knows the edge, its"
        " strength, when it acts, alpha and the latents. *Inside*: share of the flagged rows that"
        " lie in the true interval / within 6 rows of it, learned model; in brackets the share of"
        " all rows in the interval, which flagging at random would give (within 6 rows: nearly all"
        " rows for these schedules, so read the first figure).",
        ("world", "schedule", "T", "trials", "edge", "learned", "oracle", "KS learned / oracle",
         "best possible", "inside / near (chance)", "recordings"),
        lines,
        "`mechtrace bench convexity --series 2000 --seeds 5 --first 10 --broken 100`, and with"
        " `--world paper-positive`, each on one CPU core.",
    )  # fmt: skip


def theory() -> str:
    """Bounds and errors."""
    r, lines = load("theory-positive"), []
    keys = ("sigma_min", "noise", "delta_approx", "snr", "error", "bound", "worst_ratio",
            "squared_error", "smooth_bound")  # fmt: skip
    for (varied, value), rows in grouped(r["rows"], "varied", "value").items():
        found = {}
        for key in (*keys, "monotone_single", "monotone_ensemble", "shift_ensemble",
                    "missed_ensemble"):  # fmt: skip
            found[key] = mean(row[key] for row in rows)
        ordered = f"{found['monotone_single']:.2f} / {found['monotone_ensemble']:.2f}"
        lines.append(
            (
                f"{varied} {value:g}", *(f"{found[key]:.3f}" for key in keys), ordered,
                f"{found['shift_ensemble']:.1f}", f"{found['missed_ensemble']:.2f}",
            )
        )  # fmt: skip
    rate, free = (mean_of(r["growth"], key) for key in ("rate", "rate_gcv"))
    lengths = r["growth"][0]["lengths"]
    return section(
        "## Theorems 2 and 3 against simulated errors",
        f"True latents, world `{r['world']}`, {r['regimes']} regimes, a linear change over 100"
        f" steps (the first 20 left out), {r['series']} recordings, mean over {r['seeds']} worlds."
        " *Noise*: mean |z - mu_0 - B alpha|. *delta*: from mixtures of known weight 0.25, 0.5,"
        " 0.75. *Error* and *bound* of Theorem 2 per step, unprojected; *worst*: largest ratio of"
        " the two. *Squared*: mean squared error of Theorem 3's smoother with lambda = T^(1/3),"
        " against the expression inside its O(.). *Ordered*: share of pairs of steps, 0.1 apart in"
        " truth, in the right order, one recording / mean of all; *shift*: of threshold crossings"
        " (0.25, 0.5, 0.75), in steps, mean of all recordings; *missed*: crossings not found."
        " `mechtrace bench theory`",
        ("varied", "sigma_min", "noise", "delta", "SNR_eff", "error", "bound", "worst", "squared",
         "Theorem 3", "ordered", "shift", "missed"),
        lines,
        f"Error against length, in Theorem 3's own setting (independent noise, {lengths[0]} to"
        f" {lengths[-1]} steps): the smoother with the printed lambda = T^(1/3) improves as"
        f" T^{rate:.2f}, with lambda by cross-validation as T^{free:.2f}. The"
        " printed rate T^(-2/3) is reached by a larger lambda, not by the printed one: with"
        " T / lambda^(1/2) degrees of freedom (step 6 of the proof) lambda = T^(1/3) leaves a"
        " variance of T^(-1/6).",
    )  # fmt: skip
