"""The worlds in which the authors of other methods showed them, with their truth.

Enters: the name of a method and options of its world. Happens: a world is drawn from a seed.
Leaves: a world whose `simulate` gives observations with the latents and states behind them.

Below, s is LeakyReLU with slope 0.2, z are latents, x observations (as many as latents).

- tdrl: z_t = s(sum_l s(z_{t-l} W_l) + 0.1 noise); labelled domains, each with two other entries in
  one W_l.
- nctrl: the same with unlabelled states on a sticky ring; each state has its own permutation
  matrix W_1.
- leap: the same with labelled domains that share all W_l and differ in the scale of the noise.
- ivae: independent Gaussian sources without dynamics, whose variances differ between labelled
  segments.
- pcl: independent autoregressive sources with Laplace innovations; no regimes at all.

Temporal worlds are mixed by x = s(s(z) Q_1) Q_2 with orthogonal Q, the sources of the last two
by well-conditioned layers with s in between. The temporal worlds are not stable: most diverge
after the few steps that their authors use.
"""

from .published import WORLDS, make
from .simulators import Mixing, PeerSimulation, PeerWorld

__all__ = ["WORLDS", "Mixing", "PeerSimulation", "PeerWorld", "make"]
