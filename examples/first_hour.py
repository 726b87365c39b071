"""Simulate, fit, recover, diagnose, report, and compare with the truth."""

import mechtrace as mt
from mechtrace.metrics import weight_correlation

if __name__ == "__main__":
    world = mt.worlds.make("paper-positive", regimes=2, latents=4, channels=12, edge=0.6)
    panel = world.simulate(series=60).panel
    model = mt.Trace(latents=4, lags=2, hidden=32, steps=400, seed=0).fit(panel)

    glide = world.transition("simple", series=1, length=60)
    path = model.recover(glide.panel)
    print(path)
    print(model.diagnose(path))
    print("correlation with the truth:", round(weight_correlation(glide.alpha[0], path.alpha), 2))

    mt.report(model, path, "report.html", panel=glide.panel, truth=glide.alpha[0])
    model.save("machine.mechtrace")
    print("report.html: open it in a browser")
