"""Draw docs/images/pump.png and print the table of the tutorial on sensors of several machines."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from project_files import save

import mechtrace as mt
from mechtrace.metrics import weight_error
from mechtrace.viz import plot

SETTINGS = {"latents": 8, "lags": 2, "hidden": 32, "steps": 600, "seed": 0}
#: Machines that no model has seen, and how far their sensors are off.
NEW, SPREADS = range(7, 13), (0.1, 0.3)
FAULTS = {"worn": [1, 2], "clogged": [1, 0]}
SHOWN = ("outlet_bar", "flow_m3h", "bearing_C")


def slide(machine: int, spread: float, fault: str) -> mt.worlds.Simulation:
    """Ten minutes in which a healthy pump becomes a faulty one."""
    world = mt.worlds.make("pump", first=machine, machines=1, spread=spread)
    return world.transition("simple", active=FAULTS[fault], length=600, seed=machine)


def adapted(runs: mt.Panel, machine: int, spread: float, new: mt.Panel) -> mt.Panel:
    """A recording as the sensors of training would show it, by an hour in which all was well."""
    world = mt.worlds.make("pump", first=machine, machines=1, spread=spread, length=3600)
    hour = world.simulate(1, seed=machine).panel.select(["healthy"])
    return mt.Adapter.fit(runs.select(["healthy"]), hour).apply(new)


def thresholds(runs: mt.Panel) -> None:
    """How often the best threshold on one sensor is right about single rows."""
    frame = runs.to_frame()
    for fault in FAULTS:
        right = {}
        for name in runs.channels:
            two = frame[frame["regime"].isin(["healthy", fault])].sort_values(name)
            sign = np.where(two["regime"] == fault, 1, -1)
            right[name] = 0.5 + np.abs(np.cumsum(sign)).max() / len(sign)
        best = max(right, key=right.__getitem__)
        print(f"best threshold for {fault}: {best}, right in {right[best]:.0%} of the rows")


def table(model: mt.Trace, runs: mt.Panel) -> None:
    """Mean absolute errors and verdicts over new machines, with what is known of them."""
    ways = {
        "nothing": {},
        "bias": {"estimate_offset": True},
        "known": {"anchor": [("healthy", 0, 40)]},
    }
    for spread in SPREADS:
        for way in [*ways, "adapter"]:
            errors, refused = [], 0
            for machine in NEW:
                for fault in FAULTS:
                    transition = slide(machine, spread, fault)
                    new = transition.panel
                    new = adapted(runs, machine, spread, new) if way == "adapter" else new
                    path = model.recover(new, **ways.get(way, {}))
                    errors.append(weight_error(transition.alpha[0, 2:], path.alpha[2:]))
                    refused += model.diagnose(path).verdict == "do not trust"
            print(f"spread {spread} {way:8} error {np.mean(errors):.3f} (worst {max(errors):.3f}),"
                  f" do not trust: {refused} of {len(errors)}")  # fmt: skip


def picture(model: mt.Trace, runs: mt.Panel) -> None:
    """Sensors; the curve of a new pump; one with bad sensors before and after an adapter."""
    good, bad = slide(7, 0.1, "worn"), slide(11, 0.3, "worn")
    better = adapted(runs, 11, 0.3, bad.panel)
    figure = Figure(figsize=(8, 8.4), layout="constrained")
    top, *rest = figure.subplots(4, 1, sharex=True)
    frame = good.panel.to_frame()
    healthy = runs.select(["healthy"]).to_frame()
    for name in SHOWN:
        units = (frame[name] - healthy[name].mean()) / healthy[name].std()
        top.plot(frame["time"], units, label=name, lw=1)
    top.legend(loc="lower left", ncols=3, frameon=False, fontsize="small")
    top.set_ylabel("deviations")
    top.set_title("pump 7: three of nine sensors, in healthy units", fontsize="medium", loc="left")
    titles = ("pump 7", "pump 11, sensors three times as far off", "pump 11, adapted")
    for axes, title, new, truth in zip(
        rest, titles, (good.panel, bad.panel, better), (good, bad, bad), strict=True
    ):
        path = model.recover(new)
        plot.trajectory(path, axes, truth=truth.alpha[0])
        axes.set_title(f"{title}: {model.diagnose(path).verdict}", fontsize="medium", loc="left")
        axes.set_xlabel("")
        if axes is not rest[0]:
            axes.get_legend().remove()
    rest[-1].set_xlabel("seconds (dashed: truth)")
    save(figure, "pump", dpi=100)


if __name__ == "__main__":
    runs = mt.worlds.make("pump").simulate(36).panel
    model = mt.Trace(**SETTINGS).fit(runs)
    thresholds(runs)
    table(model, runs)
    picture(model, runs)
