"""Monotone linear rational splines of single numbers, many in one tensor program.

Dolatabadi, Erfani and Leckie, AISTATS 2020: between two knots lies one more point, and on each
side of it the curve is a ratio of two linear functions, so that value, slope and inverse have
closed forms. Outside the bound the curve is the identity.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: Smallest share of a bin in the interval, and smallest slope at a knot.
MIN_SHARE = MIN_SLOPE = 1e-3
#: The point between two knots keeps this share of the bin away from both.
MARGIN = 0.025


class RationalSplines(nn.Module):
    """`curves` splines; all start as the identity."""

    def __init__(self, curves: int, bins: int = 8, bound: float = 5.0) -> None:
        super().__init__()
        self.bins, self.bound = bins, bound
        self.widths = nn.Parameter(torch.zeros(curves, bins))
        self.heights = nn.Parameter(torch.zeros(curves, bins))
        self.slopes = nn.Parameter(torch.zeros(curves, bins - 1))
        self.middles = nn.Parameter(torch.zeros(curves, bins))

    def table(self) -> tuple[Tensor, Tensor]:
        """Left knots (C, bins), and of each bin what its curve is made of, (C, bins, 9).

        x0, width, middle (as a share of the width), y0, ym, y1 and the weights w0, wm, w1.
        """
        x0, width = self._knots(self.widths)
        y0, height = self._knots(self.heights)
        # softplus(0 + shift) + MIN_SLOPE = 1: the identity at the start, and beyond the bound
        shift = math.log(math.expm1(1 - MIN_SLOPE))
        slope = F.pad(F.softplus(self.slopes + shift) + MIN_SLOPE, (1, 1), value=1.0)
        s0, s1 = slope[:, :-1], slope[:, 1:]
        middle = MARGIN + (1 - 2 * MARGIN) * torch.sigmoid(self.middles)
        w0, w1, y1 = torch.ones_like(s0), (s0 / s1).sqrt(), y0 + height
        wm = (middle * w0 * s0 + (1 - middle) * w1 * s1) * width / height
        left, right = (1 - middle) * w0, middle * w1
        ym = (left * y0 + right * y1) / (left + right)
        return x0, torch.stack([x0, width, middle, y0, ym, y1, w0, wm, w1], dim=-1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Value and slope of (C, N) numbers, each row by its own curve."""
        left_knots, table = self.table()
        inside = x.abs() < self.bound
        at = torch.where(inside, x, 0.0)
        # which bin, as 0 and 1: a product picks its row, forwards and backwards without atomics
        beyond = (at[..., None] >= left_knots[:, None, 1:]).to(x.dtype)
        chosen = F.pad(beyond, (1, 0), value=1.0) - F.pad(beyond, (0, 1))
        x0, width, middle, y0, ym, y1, w0, wm, w1 = torch.bmm(chosen, table).unbind(-1)
        share = (at - x0) / width
        first = share <= middle
        a, b = torch.where(first, w0, wm), torch.where(first, wm, w1)
        ya, yb = torch.where(first, y0, ym), torch.where(first, ym, y1)
        length = torch.where(first, middle, 1 - middle)
        after = torch.where(first, share, share - middle)
        below = a * (length - after) + b * after
        value = (a * ya * (length - after) + b * yb * after) / below
        slope = length * a * b * (yb - ya) / (below.square() * width)
        return torch.where(inside, value, x), torch.where(inside, slope, 1.0)

    def _knots(self, free: Tensor) -> tuple[Tensor, Tensor]:
        """Left ends and sizes of bins that fill the interval."""
        share = MIN_SHARE + (1 - MIN_SHARE * self.bins) * free.softmax(-1)
        size = 2 * self.bound * share
        return size.cumsum(-1) - size - self.bound, size
