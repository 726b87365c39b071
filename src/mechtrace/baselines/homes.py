"""Every method in the world of its own authors: proof that none of them is a straw man."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..bench import machine
from ..errors import ConfigError
from ..fit import resolve_device
from ..metrics import linear_r2, mean_correlation
from ..store import versions
from ..worlds import peers
from . import make
from .printed import PRINTED
from .protocol import Method, Truth


@dataclass(frozen=True)
class Home:
    """A world of `worlds.peers`, and how long the method learns there."""

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


HOMES = {
    "tdrl": Home("tdrl", 10_000_000, "50 epochs of 200,000 windows", batch=512),
    "nctrl-hard": Home(
        "nctrl", 160_000_000, "200 epochs of 200,000 sequences", judged=5000, batch=256
    ),
    "nctrl-soft": Home(
        "nctrl", 160_000_000, "200 epochs of 200,000 sequences", judged=5000, batch=256
    ),
    "leap": Home("leap", 8_000_000, "53 epochs of 37,500 windows"),
    # Rows are independent: two of each of the 40 segments are 80 rows drawn at random, near to
    # the authors' 64. Only the second of the two counts as a transition. Twice as many epochs
    # change nothing (seeds 13 and 14: 0.92 after 50 and after 100).
    "ivae": Home(
        "ivae",
        1_000_000,
        "50 epochs of 40,000 rows",
        judged=1,
        settings={"lags": 1, "window": 2},
    ),
    # Of the authors' 2 or 3 layers, 2: with 3, its loss stays at 0.416 instead of 0.368 and MCC
    # at 0.76 (seed 10, 2.56 million pairs), so it is the optimisation that falls short. The
    # sources remember one step. Short crops make more steps of the same number of pairs.
    "pcl": Home(
        "pcl",
        3_200_000,
        "50 epochs of 64,000 pairs",
        judged=500,
        options={"depth": 2},
        settings={"lags": 1, "window": 9},
    ),
}


def homes_study(
    methods: Sequence[str] = tuple(HOMES),
    *,
    seeds: int = 3,
    first: int = 0,
    device: str = "auto",
    share: float = 1.0,
    say: Callable[[str], None] = print,
    keep: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """MCC, and state accuracy where there are states, over fresh worlds.

    `share` of the usual training is done (a short try); `keep` is given the result so far.
    """
    for name in methods:
        if name not in HOMES:
            fix = f"use one of {', '.join(HOMES)}"
            raise ConfigError(f"no world is known as the home of {name!r}", fix=fix)
    names = {name.partition("-")[0] for name in methods}
    on_gpu = resolve_device(device).type == "cuda"
    rows: list[dict[str, Any]] = []
    about = {
        "homes": {name: asdict(HOMES[name]) for name in methods},
        "printed": [asdict(row) for row in PRINTED if row.method.lower() in names],
        "device": device,
        "share": share,
        "machine": machine(resolve_device(device)),
        "versions": versions(),
    }
    result: dict[str, Any] = about | {"rows": rows}
    for name in methods:
        for seed in range(first, first + seeds):
            rows.append(_one(name, HOMES[name], seed, device, on_gpu, share))
            say(_line(rows[-1]))
            keep(result)
    return result


def _one(
    name: str, home: Home, seed: int, device: str, on_gpu: bool, share: float
) -> dict[str, Any]:
    world = peers.make(home.world, seed=seed, **home.options)
    known = world.simulate(max(1, home.judged // 5), seed=5)
    test = world.simulate(home.judged, seed=1)
    method = make(
        name,
        latents=test.latents.shape[-1],
        states=1 + int(test.states.max()) if test.states is not None else 2,
        seed=seed,
        device=device,
        transitions=max(1, round(share * home.transitions)),
        batch=home.batch if on_gpu else None,
        **home.settings,
    )
    began = time.perf_counter()
    method.fit(world.simulate().panel, truth=Truth(known.panel, list(known.latents)))
    row = {
        "method": name,
        "world": home.world,
        "seed": seed,
        "seconds": time.perf_counter() - began,
        "training": {k: v for k, v in getattr(method, "training_", {}).items() if k != "history"},
    }
    row |= _judge(method, test)
    chosen = _judge(method.oracle_selected(), test)
    return row | {f"{figure}_oracle": value for figure, value in chosen.items()}


def _judge(method: Method, test: peers.Recordings) -> dict[str, float | None]:
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


def _accuracy(method: Method, test: peers.Recordings) -> float | None:
    """Share of the steps whose state is right, after the best naming of the states."""
    curves = method.weights(test.panel) if test.panel.codes is None else None
    if curves is None or test.states is None:
        return None
    found, truth = np.concatenate(curves), test.states.ravel()
    known = np.isfinite(found).all(axis=1)
    table = np.zeros((found.shape[1], 1 + truth.max()))
    np.add.at(table, (found[known].argmax(axis=1), truth[known]), 1)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / table.sum())


def _line(row: dict[str, Any]) -> str:
    states = f", states {row['accuracy']:.1%}" if row["accuracy"] is not None else ""
    return (
        f"{row['method']} at home, seed {row['seed']}: MCC {row['mcc']:.3f}"
        f" (oracle-selected {row['mcc_oracle']:.3f}){states}, {row['seconds']:.0f} s"
    )
