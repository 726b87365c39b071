"""Whether offsets of recordings help: the error of alpha on recordings of groups left out."""

from __future__ import annotations

import numpy as np

from .._runtime.stochastic import generator
from .inference import state_space
from .model_selection import FEWEST_GROUPS, MARGIN
from .observation_models import CHANNELS, Features, ObservationModel, known_steps
from .recording_effects import RecordingEffects
from .share_lattice import STATES, lattice

#: Standard errors by which the error must be lower: that groups differ is no surprise.
CERTAINTY = 1.0
#: Parts that groups are dealt to, and recordings made of each part, at most.
FOLDS, RECORDINGS = 4, 16


def select_effects(
    features: Features, regime: np.ndarray, group: np.ndarray, seed: int = 0
) -> RecordingEffects | None:
    """Effects of recordings, if they clearly lower the error of alpha in groups left out.

    From features of pure series (n,) by mechanisms that have not seen their group (n,). Noise and
    effects are measured without each part of the groups in turn. Of that part, pure series and
    pseudo-transitions, spliced from two series of one group, are recovered with and without.
    Errors of one group count as one; of two or three groups, each must gain.
    """
    names, code = np.unique(group, return_inverse=True)
    kinds = int(regime.max()) + 1
    if len(names) < 3 or len(lattice(kinds)) > STATES:
        return None
    rng = generator(seed, "recording effects")
    owners, gains, errors = [], [], []
    part = code % min(FOLDS, len(names))
    for number in range(int(part.max()) + 1):
        others = np.flatnonzero(part != number)
        if len(np.unique(regime[others])) < kinds:
            continue
        rest = features.of_series(others)
        model = ObservationModel.measure(CHANNELS, rest.values, rest.predictions, regime[others])
        effects = RecordingEffects.measure(model, rest, regime[others], code[others])
        pairs = _pairs(np.flatnonzero(part == number), regime, code, rng)
        joined, truth = _spliced(features, regime, pairs)
        usual = _errors(model, joined, truth)
        corrected = _errors(model, effects.estimate(model, joined, seed).added_to(joined), truth)
        owners += code[[first for first, _ in pairs]].tolist()
        gains += (usual - corrected).tolist()
        errors += usual.tolist()
    owner, gain, error = (np.array(one) for one in (owners, gains, errors))
    known = np.isfinite(gain)
    if not known.any() or not gain[known].mean() > MARGIN * error[known].mean():
        return None
    present, own = np.unique(owner[known], return_inverse=True)
    of_group = np.bincount(own, gain[known]) / np.bincount(own)
    if len(present) < FEWEST_GROUPS:
        better = bool((of_group > 0).all())
    else:
        better = bool(of_group.mean() > CERTAINTY * of_group.std() / np.sqrt(len(present)))
    if not better:
        return None
    model = ObservationModel.measure(CHANNELS, features.values, features.predictions, regime)
    return RecordingEffects.measure(model, features, regime, group)


def _pairs(
    mine: np.ndarray, regime: np.ndarray, code: np.ndarray, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Series to splice: pairs of one group and two regimes, and series by themselves."""
    found = [(i, j) for i in mine for j in mine if code[i] == code[j] and regime[i] != regime[j]]
    alone = [(i, i) for i in mine]
    out = []
    for some in (found, alone):
        chosen = rng.permutation(len(some))[: RECORDINGS // 2]
        out += [some[one] for one in chosen]
    return out


def _spliced(
    features: Features, regime: np.ndarray, pairs: list[tuple[int, int]]
) -> tuple[Features, np.ndarray]:
    """Features of series joined in time (a series with itself counts once), and true regimes."""
    known = known_steps(features.values, features.predictions)
    steps = np.arange(known.shape[1])
    last = np.where(known.any(axis=1), known.shape[1] - known[:, ::-1].argmax(axis=1), 0)
    rows = [
        np.concatenate([np.stack([np.full(last[i], i), steps[: last[i]]])
                        for i in dict.fromkeys(pair)], axis=1)
        for pair in pairs
    ]  # fmt: skip
    longest = max(one.shape[1] for one in rows)
    truth = np.full((len(pairs), longest), -1)
    for number, one in enumerate(rows):
        truth[number, : one.shape[1]] = regime[one[0]]

    def joined(part: np.ndarray) -> np.ndarray:
        out = np.full((len(pairs), longest, *part.shape[2:]), np.nan)
        for number, one in enumerate(rows):
            out[number, : one.shape[1]] = part[one[0], one[1]]
        return out

    parts = (None if part is None else joined(part) for part in features)
    return Features(*parts), truth  # type: ignore[arg-type]


def _errors(model: ObservationModel, features: Features, truth: np.ndarray) -> np.ndarray:
    """Half the mean sum of |alpha - truth| over the known rows of each recording."""
    information = model.information(*features)
    alpha = state_space(information, np.ones(information.dims.T.shape)).alpha
    known = (information.dims.T > 0) & (truth >= 0)
    wrong = 0.5 * np.abs(alpha - np.eye(alpha.shape[2])[truth]).sum(axis=2)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, wrong, 0.0).sum(axis=1) / known.sum(axis=1))
