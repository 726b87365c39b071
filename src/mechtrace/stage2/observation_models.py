"""Where the experts were trained; beyond it they are not believed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Share of left-out latents that count as within; and how much further away still does.
WITHIN, MARGIN = 0.999, 1.5


@dataclass(frozen=True, eq=False)
class Support:
    """The region of the latents in which the pure series of all regimes ran."""

    centre: np.ndarray  # (d,)
    root: np.ndarray  # (d, d): (z - centre) @ root has unit covariance
    limit: float  # squared distance at which it ends

    @classmethod
    def of(cls, latents: np.ndarray) -> Support:
        """From latents (n, d)."""
        centre = latents.mean(axis=0)
        covariance = np.atleast_2d(np.cov(latents.T)) if len(latents) > 1 else np.eye(len(centre))
        floor = 1e-9 * np.trace(covariance) / len(covariance) + 1e-12
        root = np.linalg.cholesky(np.linalg.inv(covariance + floor * np.eye(len(covariance))))
        distance = (((latents - centre) @ root) ** 2).sum(axis=1)
        return cls(centre, root, MARGIN * float(np.quantile(distance, WITHIN)))

    @classmethod
    def everywhere(cls, latents: int) -> Support:
        """No border is known."""
        return cls(np.zeros(latents), np.eye(latents), np.inf)

    def trust(self, latents: np.ndarray) -> np.ndarray:
        """1 within the support, falling as the distance grows beyond it: (rows,)."""
        distance = (((latents - self.centre) @ self.root) ** 2).sum(axis=-1)
        with np.errstate(divide="ignore"):
            return np.minimum(1.0, np.sqrt(self.limit / distance))

    def shrink(
        self,
        expected: np.ndarray,
        means: np.ndarray,
        latents: np.ndarray,
        lags: range,
    ) -> None:
        """Pull predictions (T, S, K, d) towards the regimes' means (K, d), in place.

        Where one of the latents (T, S, d) `lags` steps before lies outside: a network says
        anything there, and says it with confidence.
        """
        if not np.isfinite(self.limit):
            return
        with np.errstate(invalid="ignore"):
            outside = self.trust(latents)
        lowest = np.ones(outside.shape)
        for lag in lags:
            np.fmin(lowest[lag:], outside[:-lag], out=lowest[lag:])
        where = lowest < 1
        share = lowest[where][:, None, None]
        expected[where] = means + share * (expected[where] - means)

    def arrays(self) -> dict[str, np.ndarray]:
        """For storage."""
        parts = {"centre": self.centre, "root": self.root, "limit": np.asarray(self.limit)}
        return {f"support/{name}": value for name, value in parts.items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> Support:
        """From storage."""
        limit = float(stored["support/limit"])
        return cls(stored["support/centre"], stored["support/root"], limit)
