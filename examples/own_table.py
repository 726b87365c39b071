"""From a pandas table to curves: columns with names of their own, dates, missing cells, a gap."""

import numpy as np
import pandas as pd

import mechtrace as mt

STEP = pd.Timedelta(seconds=0.5)


def table(seed: int, regimes: list[str], rows: int = 80) -> pd.DataFrame:
    """Runs of a made-up machine with two sensors, which swings slowly, fast, or ever faster."""
    rng = np.random.default_rng(seed)
    frames = []
    for run, regime in enumerate(regimes):
        share = {"slow": np.zeros(rows), "fast": np.ones(rows)}.get(
            regime, np.linspace(0, 1, rows)
        )
        x = np.zeros((rows, 2))
        x[0] = rng.normal(size=2)
        for t in range(1, rows):
            angle = 0.15 + 0.6 * share[t]
            turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
            x[t] = 0.97 * x[t - 1] @ np.array(turn) + rng.normal(scale=0.2, size=2)
        when = pd.Timestamp("2024-01-31 12:00") + STEP * np.arange(rows)
        frames.append(
            pd.DataFrame(
                {
                    "when": when,
                    "run": f"{regime} {run}",
                    "mode": regime,
                    "x": x[:, 0],
                    "y": x[:, 1],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


if __name__ == "__main__":
    runs = table(0, ["slow", "fast"] * 20)
    panel = mt.Panel.from_frame(runs, time="when", series="run", regime="mode")
    print(panel)
    model = mt.Trace(latents=2, lags=2, hidden=32, steps=500).fit(panel)

    new = table(1, ["glide"]).drop(columns="mode")
    new.loc[30:32, "x"] = np.nan  # not observed
    new = new.drop(index=range(50, 54))  # a gap in time
    path = model.recover(mt.Panel.from_frame(new, time="when", series="run", missing="gap"))
    print(path)
    print(path.to_frame()["flag"].value_counts())
    print(model.diagnose(path))
    path.to_frame().to_csv("alpha.csv", index=False)
