"""From pictures to channels: key points of every frame, and where they were of late.

The eye is learned first, frame by frame. Every picture is then looked at once, and all that
follows (mechanisms, axes, recovery) works on a few channels instead of thousands of pixels.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from .batches import reader
from .config import RunConfig
from .errors import FitWarning
from .keypoints import KeyPoints
from .series import Panel
from .windows import Runs, Standardiser, find_runs

#: Past frames in whose fading mean a state is remembered that no single picture shows, such as a
#: speed; and the share by which a frame counts less than the next.
MEMORY, FADING = 8, 0.7
#: With fewer latents all are needed for what a single picture shows.
LEAST_LATENTS = 4
#: Training steps and frames in each.
STEPS = {"cpu": 1200, "cuda": 2000}
BATCH = {"cpu": 32, "cuda": 256}
LEARNING_RATE, WARMUP, CLIP = 5e-3, 50, 1.0
#: Pixels looked at in one call.
CHUNK_PIXELS = {"cpu": 1 << 20, "cuda": 1 << 24}
#: Frames on which the result is judged, and the share that points may fail to explain.
JUDGED, MOST_UNEXPLAINED = 512, 0.5


class Eye:
    """Learned key points of pictures, and where they were over the past few frames.

    Only the main directions (m, 2 * points) of their movement are remembered: what is a bent
    function of a state has a mean that is no function of the mean state.
    """

    def __init__(self, points: KeyPoints, directions: np.ndarray) -> None:
        self.points = points.eval().requires_grad_(False)
        self.directions = directions

    @property
    def size(self) -> tuple[int, int]:
        """Of the pictures that it reads."""
        return self.points.size

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of what it sees: now, and of late."""
        now = [f"{axis}{number}" for axis in "xy" for number in range(self.points.points)]
        return (*now, *(f"of late {number}" for number in range(len(self.directions))))

    @property
    def shown(self) -> int:
        """How many of the channels, the first ones, a single picture shows."""
        return 2 * self.points.points

    def to(self, device: torch.device) -> Eye:
        """On another device."""
        return Eye(self.points.to(device), self.directions)

    @torch.no_grad()
    def see(self, panel: Panel) -> Panel:
        """The same recordings with key points as channels; no more than a chunk is held."""
        device = self.points.centre.device
        read = reader(panel, device)
        values = np.full((panel.rows, len(self.channels)), np.nan, np.float32)
        runs = find_runs(panel, by_regime=False)
        now, of_late = np.split(values, [self.shown], axis=1)
        rows = runs.row_numbers()
        piece = max(1, CHUNK_PIXELS[device.type] // math.prod(self.size))
        for first in range(0, len(rows), piece):
            some = rows[first : first + piece]
            now[some] = self.points(read(some)).cpu().numpy()
        within, main = runs.within(), now @ self.directions.T
        of_late[rows] = fading_mean(
            main[rows - np.minimum(within, lag)] for lag in range(1, MEMORY + 1)
        )
        return replace(panel, values=values, channels=self.channels)

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        directions = torch.from_numpy(self.directions)
        return dict(self.points.state_dict()) | {"directions": directions}

    @classmethod
    def from_tensors(cls, size: Sequence[int], tensors: dict[str, Tensor]) -> Eye:
        """From storage."""
        height, breadth = size
        points, weights = KeyPoints((height, breadth)), dict(tensors)
        directions = weights.pop("directions").numpy()
        points.load_state_dict(weights)
        return cls(points, directions)

    def draw(self, channels: Tensor) -> Tensor:
        """Pictures (..., H, W) of what was seen (..., channels)."""
        return self.points.draw(channels[..., : self.shown])


class Glance:
    """The eye row by row: it remembers as many frames as it needs."""

    def __init__(self, eye: Eye) -> None:
        self.eye = eye
        self.past: deque[np.ndarray] = deque(maxlen=MEMORY)  # the newest first

    @torch.no_grad()
    def see(self, picture: np.ndarray) -> np.ndarray:
        """What is seen of the next picture; NaN in it means that it was not observed."""
        if not np.isfinite(picture).all():
            self.forget()
            return np.full(len(self.eye.channels), np.nan)
        like = self.eye.points.centre
        now = self.eye.points(torch.from_numpy(picture).to(like)[None])[0].cpu().numpy()
        past = [*self.past, *[self.past[-1] if self.past else now] * (MEMORY - len(self.past))]
        self.past.appendleft(now)
        return np.concatenate([now, fading_mean(past) @ self.eye.directions.T])

    def forget(self) -> None:
        """After a gap there is no past."""
        self.past.clear()


def fading_mean(past: Iterable[np.ndarray]) -> np.ndarray:
    """Weighted mean of arrays of past frames, the newest first."""
    weights = FADING ** np.arange(MEMORY)
    weights = (weights / weights.sum()).astype(np.float32)
    return sum(w * before for w, before in zip(weights, past, strict=True))


def learn_eye(
    panel: Panel,
    train: Runs,
    run: RunConfig,
    device: torch.device,
    say: Callable[[str], None] = lambda text: None,
) -> Eye:
    """Learn the key points of the pictures of training runs, frame by frame."""
    config, (height, breadth) = run.fit, panel.shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        points = KeyPoints((height, breadth))
    units = Standardiser.of(panel, train)
    points.centre.copy_(torch.from_numpy(units.centre))
    points.scale.fill_(float(units.scale.mean()))
    points.to(device)
    read, rows = reader(panel, device), train.row_numbers()
    random = np.random.default_rng([config.seed, 17])
    steps, batch = min(config.steps, STEPS[device.type]), BATCH[device.type]
    optimiser = torch.optim.AdamW(points.parameters(), betas=(0.9, 0.99), weight_decay=1e-4)
    say(f"learning key points of pictures of {height} x {breadth} pixels")
    for step in range(steps):
        fall = 0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-3
        optimiser.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARMUP) * fall
        some = np.sort(random.choice(rows, batch))  # as they lie in the file
        optimiser.zero_grad(set_to_none=True)
        points.unexplained(read(some)).backward()
        nn.utils.clip_grad_norm_(points.parameters(), CLIP)
        optimiser.step()
    some = np.sort(random.permutation(rows)[: JUDGED * 8])
    memory = run.model.latents // 2 if run.model.latents >= LEAST_LATENTS else 0
    return Eye(points, _main_directions(points, read, some)[:memory])


@torch.no_grad()
def _main_directions(
    points: KeyPoints, read: Callable[[np.ndarray], Tensor], rows: np.ndarray
) -> np.ndarray:
    """Principal axes of the movement of the points, the main one first."""
    found = [points(read(some)) for some in np.array_split(rows, 1 + len(rows) // 256)]
    axes = np.linalg.eigh(np.cov(torch.cat(found).double().cpu().numpy().T))[1]
    return np.ascontiguousarray(axes[:, ::-1].T, dtype=np.float32)


def unexplained_share(eye: Eye, panel: Panel, runs: Runs) -> float:
    """What the key points do not tell of (held-out) pictures; a warning where it is too much."""
    rows = np.random.default_rng(0).permutation(runs.row_numbers())[:JUDGED]
    with torch.no_grad():
        share = float(eye.points.unexplained(reader(panel, eye.points.centre.device)(rows)))
    if not share <= MOST_UNEXPLAINED:
        warnings.warn(
            f"key points explain only {max(0.0, 1 - share):.0%} of what varies in the pictures;"
            " give more steps or pictures, or use encoder='image'.",
            FitWarning,
            stacklevel=2,
        )
    return share
