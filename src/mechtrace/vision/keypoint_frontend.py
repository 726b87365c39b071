"""Key points as channels: the frontend that turns pictures into a few coordinates.

Encoder: convolutions give one weight map per point, and the point is its centre of mass (spatial
soft-argmax, Finn et al. 2016). Decoder: the points become Gaussian heat maps, from which
convolutions reconstruct the picture (Jakab et al. 2018). A point reduces the error only if it
lies on something that moves, so the map from the position of a thing to its point is nearly
linear. The frontend is learned first, without labels and frame by frame; each picture is then
read once.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._runtime.process import torch_threads, training_threads
from .._runtime.stochastic import generator, minimise, seeded, warmup_cosine
from ..config import RunConfig
from ..data.device import reader
from ..data.panel import Panel
from ..data.segments import Runs, find_runs
from ..data.standardise import Standardiser
from ..errors import FitWarning
from ..io.tensor_schema import check_tensors
from ..io.typed_json import Mismatch

logger = logging.getLogger(__name__)

#: Of the network: key points, channels of a hidden layer, cells on a side of a kernel.
POINTS, WIDTH, KERNEL = 4, 8, 5
SLOPE = 0.2  # of the leaky activation
#: Strided convolutions halve larger pictures until a map has at most this many cells on a side.
MAP_SIDE = 16
#: Standard deviation of a heat map, in halves of the longer side of a picture.
HEAT_WIDTH = 0.2
#: Past frames in the moving average, which carries what no single picture shows (such as a
#: speed), and the weight of a frame relative to the next newer one.
AVERAGED_FRAMES, DECAY = 8, 0.7
#: With fewer latents, all are needed for what a single picture shows: no moving average.
LEAST_LATENTS = 4
#: Training steps and frames in each.
STEPS = {"cpu": 1200, "cuda": 2000}
BATCH = {"cpu": 32, "cuda": 256}
LEARNING_RATE, WARMUP = 5e-3, 50
#: Pixels read in one call.
CHUNK_PIXELS = {"cpu": 1 << 20, "cuda": 1 << 24}
#: Held-out frames on which the key points are validated, and the largest unexplained share of
#: the variance that passes without a warning.
VALIDATED_FRAMES, MOST_UNEXPLAINED = 512, 0.5


class KeyPoints(nn.Module):
    """Pictures (..., H, W) to points (..., 2 * points): all x, then all y; and back."""

    centre: Tensor
    scale: Tensor
    rows: Tensor
    columns: Tensor

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size, self.points = size, POINTS
        halvings = max(0, math.ceil(math.log2(max(size) / MAP_SIDE)))
        steps = max(2, halvings + 1)
        self.look = nn.ModuleList(
            nn.Conv2d(a, WIDTH, KERNEL, stride=2 if number < halvings else 1, padding=KERNEL // 2)
            for number, a in enumerate([1, *[WIDTH] * (steps - 1)])
        )
        self.weigh = nn.Conv2d(WIDTH, POINTS, kernel_size=1)
        self.paint = nn.ModuleList(
            nn.Conv2d(a, b, KERNEL, padding=KERNEL // 2)
            for a, b in pairwise([POINTS, 2 * WIDTH, 2 * WIDTH, 1])
        )
        self.register_buffer("centre", torch.zeros(size))
        self.register_buffer("scale", torch.ones(()))
        height, breadth = (-(-side // 2**halvings) for side in size)
        longest = max(height, breadth)
        for name, cells in (("rows", height), ("columns", breadth)):
            places = (torch.arange(cells) + 0.5 - cells / 2) * (2 / longest)
            self.register_buffer(name, places, persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        """Points (..., 2 * points), in halves of the longer side from the centre."""
        h = self._standardised(pictures).reshape(-1, 1, *self.size)
        for conv in self.look:
            h = F.leaky_relu(conv(h), SLOPE)
        weight = self.weigh(h).flatten(2).softmax(-1).unflatten(2, self._cells)
        x, y = weight.sum(2) @ self.columns, weight.sum(3) @ self.rows
        return torch.cat([x, y], -1).reshape(*pictures.shape[:-2], -1)

    def reconstruct(self, points: Tensor) -> Tensor:
        """Standardised pictures (n, h, w) at the resolution of the maps, from (n, 2 * points)."""
        x, y = points.chunk(2, dim=-1)
        h = self._heat(y, self.rows)[..., :, None] * self._heat(x, self.columns)[..., None, :]
        for number, conv in enumerate(self.paint):
            h = conv(F.leaky_relu(h, SLOPE) if number else h)
        return h.squeeze(1)

    def unexplained(self, pictures: Tensor) -> Tensor:
        """Share of the variance of the pictures that the reconstruction misses."""
        wanted = F.adaptive_avg_pool2d(self._standardised(pictures)[:, None], self._cells)[:, 0]
        error = wanted - self.reconstruct(self(pictures))
        return error.square().mean() / wanted.square().mean().clamp_min(1e-12)

    def decode(self, points: Tensor) -> Tensor:
        """Pictures (..., H, W) of points, in the units of the data."""
        small = self.reconstruct(points.reshape(-1, points.shape[-1]))[:, None]
        large = F.interpolate(small, self.size, mode="bilinear", align_corners=False)
        return large.reshape(*points.shape[:-1], *self.size) * self.scale + self.centre

    @property
    def _cells(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def _standardised(self, pictures: Tensor) -> Tensor:
        return (pictures.to(self.centre.dtype) - self.centre) / self.scale

    @staticmethod
    def _heat(place: Tensor, cells: Tensor) -> Tensor:
        return (-0.5 * ((cells - place[..., None]) / HEAT_WIDTH).square()).exp()


class KeypointFrontend:
    """Key points of each picture and a moving average of their past positions.

    The average is taken along the principal directions (m, 2 * points) of their movement only:
    the mean of a curved function of a state is not a function of the mean state.
    """

    def __init__(self, points: KeyPoints, directions: np.ndarray) -> None:
        self.points = points.eval().requires_grad_(False)
        self.directions = directions

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the pictures."""
        return self.points.size

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels: the key points, then the moving averages."""
        now = [f"{axis}{number}" for axis in "xy" for number in range(self.points.points)]
        return (*now, *(f"moving average {number}" for number in range(len(self.directions))))

    @property
    def keypoint_channels(self) -> int:
        """Number of the first channels, those that depend on the current picture alone."""
        return 2 * self.points.points

    def units(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean of each pixel, and scale of all, in training."""
        centre = self.points.centre.double().cpu().numpy()
        return centre, np.full_like(centre, float(self.points.scale))

    def to(self, device: torch.device) -> KeypointFrontend:
        """Move the network to another device."""
        return KeypointFrontend(self.points.to(device), self.directions)

    @torch.no_grad()
    def transform(self, panel: Panel) -> Panel:
        """Replace pictures by channels; at most one chunk of pictures is in memory."""
        device = self.points.centre.device
        read = reader(panel, device)
        values = np.full((panel.rows, len(self.channels)), np.nan, np.float32)
        runs = find_runs(panel, by_regime=False)
        now, average = np.split(values, [self.keypoint_channels], axis=1)
        rows = runs.row_numbers()
        piece = max(1, CHUNK_PIXELS[device.type] // math.prod(self.size))
        for first in range(0, len(rows), piece):
            some = rows[first : first + piece]
            now[some] = self.points(read(some)).cpu().numpy()
        within, main = runs.position_in_run(), now @ self.directions.T
        average[rows] = moving_average(
            main[rows - np.minimum(within, lag)] for lag in range(1, AVERAGED_FRAMES + 1)
        )
        return replace(panel, values=values, channels=self.channels)

    def tensors(self) -> dict[str, Tensor]:
        """Everything to be stored; `from_tensors` is the inverse."""
        directions = torch.from_numpy(self.directions)
        return dict(self.points.state_dict()) | {"directions": directions}

    @classmethod
    def from_tensors(cls, size: Sequence[int], tensors: dict[str, Tensor]) -> KeypointFrontend:
        """Restore a frontend for pictures of this size."""
        height, breadth = size
        weights = dict(tensors)
        directions = weights.pop("directions", torch.zeros(()))
        if tensors.get("centre", directions).shape != (height, breadth):
            raise Mismatch("pictures.size is not that of frontend/centre")
        points = KeyPoints((height, breadth))
        wanted = directions.new_zeros((*directions.shape[:1], 2 * POINTS), dtype=torch.float32)
        expected = points.state_dict() | {"directions": wanted}
        check_tensors("frontend", expected, tensors, divisors=("scale",))
        if not torch.allclose(directions @ directions.T, torch.eye(len(directions)), atol=1e-3):
            raise Mismatch("frontend/directions are not orthonormal")
        points.load_state_dict(weights)
        with torch.no_grad():
            ordinary = points.centre + points.scale * torch.tensor([-3.0, 0.0, 3.0])[:, None, None]
            if not torch.isfinite(points(ordinary)).all():
                raise Mismatch("weights of the frontend give no key points")
        return cls(points, directions.numpy())

    def decode(self, channels: Tensor) -> Tensor:
        """Pictures (..., H, W) of channels (..., C)."""
        return self.points.decode(channels[..., : self.keypoint_channels])


class OnlineFrontend:
    """A KeypointFrontend that is fed picture by picture and buffers the past frames it needs."""

    def __init__(self, frontend: KeypointFrontend) -> None:
        self.frontend = frontend
        self.past: deque[np.ndarray] = deque(maxlen=AVERAGED_FRAMES)  # the newest first

    @torch.no_grad()
    def update(self, picture: np.ndarray) -> np.ndarray:
        """Channels of the next picture; a picture with NaN was not observed and resets."""
        if not np.isfinite(picture).all():
            self.reset()
            return np.full(len(self.frontend.channels), np.nan)
        points = self.frontend.points
        now = points(torch.from_numpy(picture).to(points.centre)[None])[0].cpu().numpy()
        oldest = self.past[-1] if self.past else now
        past = [*self.past, *[oldest] * (AVERAGED_FRAMES - len(self.past))]
        self.past.appendleft(now)
        return np.concatenate([now, moving_average(past) @ self.frontend.directions.T])

    def reset(self) -> None:
        """Drop the past frames, as after a gap."""
        self.past.clear()


def moving_average(past: Iterable[np.ndarray]) -> np.ndarray:
    """Exponentially weighted mean of arrays of past frames, the newest first."""
    weights = DECAY ** np.arange(AVERAGED_FRAMES)
    weights = (weights / weights.sum()).astype(np.float32)
    return sum(w * before for w, before in zip(weights, past, strict=True))


def learn_frontend(
    panel: Panel, train: Runs, run: RunConfig, device: torch.device
) -> KeypointFrontend:
    """Learn key points on single pictures of the training runs."""
    config, (height, breadth) = run.fit, panel.shape
    with seeded(config.seed):
        points = KeyPoints((height, breadth))
    units = Standardiser.fit(panel, train, config.seed)
    points.centre.copy_(torch.from_numpy(units.centre))
    points.scale.fill_(float(units.scale.mean()))
    points.to(device)
    read, rows = reader(panel, device), train.row_numbers()
    random = np.random.default_rng([config.seed, 17])
    steps, batch = min(config.steps, STEPS[device.type]), BATCH[device.type]
    logger.debug(f"learning key points of pictures of {height} x {breadth} pixels")
    work = sum(p.numel() for p in points.parameters()) * batch * height * breadth
    with torch_threads(training_threads(work)):
        minimise(
            points.parameters(),
            # sorted, as the pictures lie in the file
            lambda step: points.unexplained(read(np.sort(random.choice(rows, batch)))),
            steps,
            lambda step: warmup_cosine(step, steps, LEARNING_RATE, WARMUP),
            betas=(0.9, 0.99), weight_decay=1e-4, clip=1.0,
        )  # fmt: skip
        some = np.sort(random.permutation(rows)[: VALIDATED_FRAMES * 8])
        averages = run.model.latents // 2 if run.model.latents >= LEAST_LATENTS else 0
        return KeypointFrontend(points, _principal_directions(points, read, some)[:averages])


@torch.no_grad()
def _principal_directions(
    points: KeyPoints, read: Callable[[np.ndarray], Tensor], rows: np.ndarray
) -> np.ndarray:
    """Principal components of the movement of the points, the largest first."""
    found = [points(read(some)) for some in np.array_split(rows, 1 + len(rows) // 256)]
    axes = np.linalg.eigh(np.cov(torch.cat(found).double().cpu().numpy().T))[1]
    return np.ascontiguousarray(axes[:, ::-1].T, dtype=np.float32)


def unexplained_share(frontend: KeypointFrontend, panel: Panel, runs: Runs, seed: int) -> float:
    """Share of the variance of pictures that the key points miss; warns where it is large."""
    rows = generator(seed, "judged pictures").permutation(runs.row_numbers())[:VALIDATED_FRAMES]
    points = frontend.points
    with torch.no_grad():
        share = float(points.unexplained(reader(panel, points.centre.device)(rows)))
    if not share <= MOST_UNEXPLAINED:
        warnings.warn(
            f"key points explain only {max(0.0, 1 - share):.0%} of the variance of the pictures;"
            " give more steps or pictures, or use encoder='image'.", FitWarning, stacklevel=2,
        )  # fmt: skip
    return share
