"""Learning: one mechanism per regime, by a sequential variational autoencoder.

Enters: a labelled Panel and the settings. Happens: an encoder q(z_t | x), a decoder p(x | z) and
one expert p_k(z_t | z_{t-L:t-1}) per regime are trained on the ELBO and checked on held-out
series. Leaves: the model, its latents as float64 arrays, and the record of the fit.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
