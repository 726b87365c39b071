"""What a recording shows in which something happens that no pure regime does."""

import mechtrace as mt

if __name__ == "__main__":
    world = mt.worlds.make("paper-positive", regimes=2, latents=4, channels=12, edge=0.6)
    # align=False: the shares do not depend on which latents are identified
    model = mt.Trace(latents=4, hidden=32, steps=300, align=False)
    model.fit(world.simulate(series=60).panel)

    edge = mt.worlds.EmergentEdge(source=1, target=3, strength=0.2, low=0.1, high=0.9)
    for name, emergent in (("known mechanisms only", None), ("with a foreign edge", edge)):
        panel = world.transition("simple", length=60, seed=2, emergent=emergent).panel
        path = model.recover(panel)
        flagged = int((path.flag == "unexplained").sum())
        print(f"{name}: {model.diagnose(path).verdict}, {flagged} steps unexplained")
        print(" ", model.diagnose(path)["convexity"])
