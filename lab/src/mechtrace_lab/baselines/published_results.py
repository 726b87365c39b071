"""Results that the authors of the compared methods publish for their own worlds.

A row without a value is a figure that could not be read anywhere; nobody should fill it in from
memory. The tables of the papers themselves could not be read: `found` is the text that a value was
taken from, and `note` says how far that text can be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

TDRL = "Yao, Chen, Zhang (2022), Temporally Disentangled Representation Learning, arXiv:2210.13647"
NCTRL = (
    "Song et al. (2023), Temporally Disentangled Representation Learning under Unknown"
    " Nonstationarity, arXiv:2310.18615"
)
LEAP = (
    "Yao et al. (2022), Learning Temporally Causal Latent Processes from General Temporal Data,"
    " arXiv:2110.05428"
)
IVAE = (
    "Khemakhem et al. (2020), Variational Autoencoders and Nonlinear ICA: A Unifying Framework,"
    " arXiv:1907.04809"
)
PCL = (
    "Hyvarinen, Morioka (2017), Nonlinear ICA of Temporally Dependent Stationary Sources, AISTATS"
)

NOTES = (
    "https://github.com/bluster01/thermal-world-model,"
    " papers/causal_representation/notes_LEAP_NonstatSSM_TDRL.md"
)
ISSUE = "https://github.com/ilkhem/iVAE/issues/1"
REPRODUCTION = "https://github.com/jjgsherwood/FACT-AI, README.md"

ROUNDED = "a reader's notes on the paper; rounded, no table number"
BOTH = f"{ROUNDED}, one figure for both data sets (mixing of 2 and of 3 layers)"


@dataclass(frozen=True)
class PublishedResult:
    """A published value: method, world, metric and source."""

    method: str
    world: str  # a name of `worlds.peers`
    setting: str
    metric: str  # MCC and accuracy as shares
    source: str  # where it is printed first
    value: float | None = None
    spread: float | None = None  # standard deviation over runs
    found: str | None = None  # where it was read
    note: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != (self.found is None):
            raise ValueError("a value needs the place where it was read, and a place a value")
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"MCC and accuracy are shares, and {self.value} is none")
        if self.spread is not None and not (self.value is not None and self.spread > 0):
            raise ValueError("a spread is positive and belongs to a value")
        if self.secondary and not self.note:
            raise ValueError("a value read elsewhere needs a note on how far to trust that text")

    @property
    def secondary(self) -> bool:
        """Whether the value was read in a secondary source."""
        return self.found is not None and self.found != self.source


#: All figures, world by world.
PUBLISHED: tuple[PublishedResult, ...] = (
    *(
        PublishedResult("TDRL", "tdrl", setting, "MCC", TDRL)
        for setting in ("fixed dynamics", "changing dynamics", "modular shifts")
    ),
    *(
        PublishedResult(method, "tdrl", "changing dynamics", "MCC", TDRL)
        for method in ("LEAP", "iVAE", "PCL", "SlowVAE", "BetaVAE")
    ),
    *(
        PublishedResult(method, "nctrl", "data sets A and B", "MCC", NCTRL, mcc, None, NOTES, BOTH)
        for method, mcc in (
            ("NCTRL", 0.99),
            ("TDRL", 0.78),
            ("iVAE", 0.67),
            ("HMNLICA", 0.59),
            ("BetaVAE", 0.46),
        )
    ),
    PublishedResult(
        "NCTRL", "nctrl", "data sets A and B", "state accuracy", NCTRL, 0.90, None, NOTES, BOTH
    ),
    PublishedResult(
        "LEAP",
        "leap",
        "synthetic, 8 latents, 2 lags",
        "MCC",
        LEAP,
        0.98,
        None,
        NOTES,
        f"{ROUNDED}; the setting is not named, but its ablation has the flows of changing noise",
    ),
    *(
        PublishedResult(
            method, "leap", "synthetic, ablation", "MCC", LEAP, mcc, None, NOTES, ROUNDED
        )
        for method, mcc in (
            ("LEAP without prior, flows and discriminator", 0.45),
            ("LEAP with the prior only", 0.72),
            ("LEAP without discriminator", 0.94),
        )
    ),
    PublishedResult(
        "iVAE",
        "ivae",
        "40 segments of 1,000 points, 5 sources, 3 layers",
        "MCC",
        IVAE,
        0.90,
        None,
        ISSUE,
        "a reader's 'about 90%' of the authors' figure, which is a plot",
    ),
    PublishedResult(
        "iVAE",
        "ivae",
        "40 segments of 1,000 points, 5 sources, 3 layers, uncentred, xtanh activation",
        "MCC",
        REPRODUCTION,
        0.4701,
        0.0726,
        REPRODUCTION,
        "measured by others who reproduced another paper, not by the authors; its sources are"
        " uncentred and its activation is not LeakyReLU, unlike in our world",
    ),
    PublishedResult("PCL", "pcl", "autoregressive sources", "mean absolute correlation", PCL),
)
