"""How fast competitors train here, beside the literal way to compute the same; one core.

Writes lab/results/competitor-speed-cpu.json. The literal versions are those that the tests compare
ours with: networks one by one, whole Jacobian matrices, chains differentiated step by step, rows
gathered one by one. `authors` is what the authors' own code was measured at (TDRL and NCTRL).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from project_files import RESULTS, ROOT
from torch import Tensor

sys.path.insert(0, str(ROOT / "lab" / "tests"))

import literal

from mechtrace import worlds
from mechtrace.io import versions
from mechtrace_lab.baselines import make
from mechtrace_lab.baselines.chains import best_path
from mechtrace_lab.benchmarks import machine

#: Transitions per second of the authors' own code on one core, at these sizes.
AUTHORS = {"tdrl": 116, "nctrl-hard": 243, "nctrl-soft": 243}
NAMES = ("tdrl", "nctrl-hard", "nctrl-soft", "leap", "ivae", "pcl")
D, LAGS, KINDS, SECONDS = 8, 2, 5, 8.0


def ours(name: str, panel) -> float:
    """Transitions per second of our training, the loop and the batches included."""
    shown = 20_000
    while True:
        method = make(name, latents=D, lags=LAGS, transitions=shown, evaluations=1, device="cpu")
        method.fit(panel)
        if method.training_["seconds"] > SECONDS / 2:
            return method.training_["transitions_per_second"]
        shown *= 4


def literally(name: str, panel, length: int) -> float:
    """Transitions per second of the literal way, at the authors' batch."""
    method = make(name, latents=D, lags=LAGS, transitions=1, evaluations=1, device="cpu").fit(
        panel
    )
    model, batch = method.model, 4 if name == "leap" else 8
    loss = LITERAL[name]
    values, rng = panel.to_arrays(), np.random.default_rng(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    began, rows = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        chosen = rng.integers(len(values), size=KINDS * batch)
        x = torch.stack([torch.from_numpy(values[i][:length].copy()) for i in chosen]).float()
        x = x.unflatten(0, (KINDS, batch))
        optimiser.zero_grad()
        loss(model, x, torch.randn(*x.shape[:-1], D)).backward()
        optimiser.step()
        rows += len(chosen) * (length - LAGS)
    return rows / (time.perf_counter() - began)


def tdrl(model, x: Tensor, noise: Tensor) -> Tensor:
    """Known domains."""
    domains = torch.arange(KINDS).repeat_interleave(x.shape[1])[:, None]
    domains = domains.expand(-1, x.shape[2] - LAGS)
    return literal.temporal_loss(model, x.flatten(0, 1), noise.flatten(0, 1), domains)


def nctrl(model, x: Tensor, noise: Tensor) -> Tensor:
    """Domains from the chain, and the chain itself."""
    x, noise = x.flatten(0, 1), noise.flatten(0, 1)
    path = best_path(*model.chain.parts((x - model.centre) / model.scale))
    return literal.temporal_loss(model, x, noise, path) + literal.chain_loss(model, x)


def as_it_is(model, x: Tensor, noise: Tensor) -> Tensor:
    """Nothing to gain but the batches: these methods have no Jacobian and no recursion."""
    if model.__class__.__name__ == "Contrast":  # it knows no domains
        x, noise = x.flatten(0, 1)[None], noise.flatten(0, 1)[None]
    return model.loss(model(x, noise))


LITERAL: dict[str, Callable[..., Tensor]] = {
    "tdrl": tdrl,
    "nctrl-hard": nctrl,
    "nctrl-soft": nctrl,
    "leap": literal.noise_loss,
    "ivae": as_it_is,
    "pcl": as_it_is,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    world = worlds.make("paper", regimes=KINDS, latents=D, channels=D, lags=LAGS)
    panel = world.simulate(64).panel
    rows = []
    for name in NAMES:
        length = 3 if name == "tdrl" else 6
        fast, slow = ours(name, panel), literally(name, panel, length)
        authors = AUTHORS.get(name)
        rows.append(
            {"method": name, "ours": fast, "literal": slow, "authors": authors, "length": length}
        )
        print(f"{name}: {fast:,.0f} transitions/s, literally {slow:,.0f}, authors {authors}")
    result = {
        "rows": rows,
        "configuration": {"latents": D, "channels": D, "lags": LAGS, "regimes": KINDS},
        "machine": machine(torch.device("cpu")),
        "versions": versions(),
    }
    path = RESULTS / "competitor-speed-cpu.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
