"""The answer row by row: say so when a regime has surely taken over."""

import mechtrace as mt

if __name__ == "__main__":
    world = mt.worlds.make("paper-positive", regimes=2, latents=4, channels=12, edge=0.6)
    # align=False: the shares do not depend on which latents are identified
    model = mt.Trace(latents=4, hidden=32, steps=300, align=False)
    model.fit(world.simulate(series=60).panel)

    stream, leader = model.stream(level=0.9), ""
    for time, row in enumerate(world.transition("simple", series=1, length=60).panel[0].values):
        now = stream.update(row, time=time)
        sure = now.lower.argmax()
        if now.lower[sure] > 0.5 and now.regimes[sure] != leader:
            leader = now.regimes[sure]
            print(f"{now}  <- {leader} holds more than half, at 90 %")
