"""Every method on the benchmark of its own authors, to check our implementation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from mechtrace._runtime import duration
from mechtrace.errors import ConfigError
from mechtrace.io import versions
from mechtrace.metrics import linear_r2, mean_correlation
from mechtrace.stage1 import Listener, resolve_device

from .. import peer_worlds as peers
from ..benchmarks import machine
from ..jobs import FINISHED, Job, Row, collect, new_folder
from . import make
from .protocol import Method, Truth


@dataclass(frozen=True, eq=False)
class OwnBenchmark:
    """A world of `peer_worlds` and the training budget of a method there."""

    world: str
    transitions: int  # shown in all
    passes: str  # how the authors count it
    #: recordings (of each domain) to judge; a fifth as many select by the truth
    judged: int = 1000
    #: series per step where a GPU would idle with the authors' number
    batch: int | None = None
    #: what is asked of the world where its authors leave a choice
    options: Mapping[str, Any] = field(default_factory=dict)
    #: fields of `Settings` that belong to the authors' recipe there
    settings: Mapping[str, Any] = field(default_factory=dict)


OWN_BENCHMARKS = {
    # 512 windows a step (an eighth of the steps) leave it at 0.76, 0.88 and 1.00, still rising
    "tdrl": OwnBenchmark("tdrl", 10_000_000, "50 epochs of 200,000 windows"),
    "nctrl-hard": OwnBenchmark(
        "nctrl", 160_000_000, "200 epochs of 200,000 sequences", judged=5000, batch=256
    ),
    "nctrl-soft": OwnBenchmark(
        "nctrl", 160_000_000, "200 epochs of 200,000 sequences", judged=5000, batch=256
    ),
    "leap": OwnBenchmark("leap", 8_000_000, "53 epochs of 37,500 windows"),
    # Rows are independent: two of each of the 40 segments are 80 rows drawn at random, near to
    # the authors' 64. Only the second of the two counts as a transition. Twice as many epochs
    # change nothing (seeds 13 and 14: 0.92 after 50 and after 100).
    "ivae": OwnBenchmark(
        "ivae",
        1_000_000,
        "50 epochs of 40,000 rows",
        judged=1,
        settings={"lags": 1, "window": 2},
    ),
    # Of the authors' 2 or 3 layers, 2: with 3, its loss stays at 0.416 instead of 0.368 and MCC
    # at 0.76 (seed 10, 2.56 million pairs), so it is the optimisation that falls short. The
    # sources remember one step. Short crops make more steps of the same number of pairs.
    "pcl": OwnBenchmark(
        "pcl",
        3_200_000,
        "50 epochs of 64,000 pairs",
        judged=500,
        options={"depth": 2},
        settings={"lags": 1, "window": 9},
    ),
}


@dataclass(frozen=True)
class OwnBenchmarkJob(Job):
    """A method on its authors' benchmark, in a fresh world."""

    method: str
    benchmark: OwnBenchmark
    number: int
    share: float  # of the usual training
    device: str

    @property
    def kind(self) -> str:
        """The method."""
        return self.method

    @property
    def seed(self) -> int:
        """Of the world and of the method."""
        return self.number

    def about(self) -> dict[str, Any]:
        """All that its result depends on."""
        home = asdict(self.benchmark)
        of_job = {"method": self.method, "seed": self.seed, "share": self.share}
        return of_job | {"device": self.device, "home": home}

    def describe(self, row: Row) -> str:
        """MCC, states and cost."""
        states = f", states {row['accuracy']:.1%}" if row["accuracy"] is not None else ""
        return (
            f"MCC {row['mcc']:.3f} (oracle-selected {row['mcc_oracle']:.3f}){states},"
            f" {duration(row['seconds'])}"
        )

    def run(self, folder: Path, listeners: Sequence[Listener] = ()) -> Row:
        """Train and score on new recordings."""
        benchmark = self.benchmark
        world = peers.make(benchmark.world, seed=self.seed, **benchmark.options)
        known = world.simulate(max(1, benchmark.judged // 5), seed=5)
        test = world.simulate(benchmark.judged, seed=1)
        method = make(
            self.method,
            latents=test.latents.shape[-1],
            states=1 + int(test.states.max()) if test.states is not None else 2,
            seed=self.seed,
            device=self.device,
            transitions=max(1, round(self.share * benchmark.transitions)),
            batch=benchmark.batch if self.device == "cuda" else None,
            **benchmark.settings,
        )
        began = time.perf_counter()
        truth = Truth(known.panel, list(known.latents))
        method.fit(world.simulate().panel, listeners=listeners, truth=truth)
        seconds = time.perf_counter() - began
        told = getattr(method, "training_", {})
        chosen = _scores(method.oracle_selected(), test)
        return self.row(
            FINISHED,
            reason=None,
            **_scores(method, test),
            **{f"{figure}_oracle": value for figure, value in chosen.items()},
            seconds=seconds,
            training={name: value for name, value in told.items() if name != "history"},
            machine=machine(torch.device(self.device)),
            versions=versions(),
        )


def own_benchmark_study(
    methods: Sequence[str],
    out: Path,
    *,
    seeds: int = 3,
    first: int = 0,
    share: float = 1.0,
    workers: int = 1,
    device: str = "auto",
    fresh: bool = False,
    live: bool = True,
) -> list[Row]:
    """Measure MCC, and state accuracy where there are states, over fresh worlds.

    `share` of the usual training is done (a short try). Rows are kept in `out`.
    """
    for name in methods:
        if name not in OWN_BENCHMARKS:
            fix = f"use one of {', '.join(OWN_BENCHMARKS)}"
            raise ConfigError(f"no world is known as the home of {name!r}", fix=fix)
    where = resolve_device(device).type
    jobs = [
        OwnBenchmarkJob(name, OWN_BENCHMARKS[name], seed, share, where)
        for name in methods
        for seed in range(first, first + seeds)
    ]
    new_folder(out, out)
    rows: list[Row] = []
    collect(jobs, out, rows, workers=workers, fresh=fresh, live=live)
    return rows


def _scores(method: Method, test: peers.PeerSimulation) -> dict[str, float | None]:
    lags = method.settings.lags
    found = method.encode(test.panel)
    assert found is not None  # every method here has latents
    learned = np.stack(found)
    truth, late = test.latents[:, lags:], learned[:, lags:]
    return {
        "mcc": mean_correlation(truth, late),
        "mcc_rank": mean_correlation(truth, late, rank=True),
        "mcc_all_steps": mean_correlation(test.latents, learned),
        "r2": linear_r2(truth, late),
        "accuracy": _accuracy(method, test),
    }


def _accuracy(method: Method, test: peers.PeerSimulation) -> float | None:
    """State accuracy after the best matching of the states."""
    curves = method.weights(test.panel) if test.panel.codes is None else None
    if curves is None or test.states is None:
        return None
    found, truth = np.concatenate(curves), test.states.ravel()
    known = np.isfinite(found).all(axis=1)
    table = np.zeros((found.shape[1], 1 + truth.max()))
    np.add.at(table, (found[known].argmax(axis=1), truth[known]), 1)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / table.sum())
