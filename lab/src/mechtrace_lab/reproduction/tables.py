"""The values that the paper prints; correlations unless stated, spreads after +-.

Keys are what a number is of; `None` stands for a spread that is not printed.
"""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A printed value and its spread."""

    value: float
    spread: float | None = None


def _row(*values: float) -> tuple[Figure, ...]:
    return tuple(Figure(value) for value in values)


#: Table 1: weight correlation (None: not applicable) and MCC.
METHODS: dict[str, tuple[Figure | None, Figure]] = {
    "nctrl-hard": (Figure(0.67, 0.03), Figure(0.90, 0.09)),
    "nctrl-soft": (Figure(0.72, 0.01), Figure(0.90, 0.09)),
    "tdrl": (None, Figure(0.89, 0.03)),
    "leap": (None, Figure(0.66, 0.05)),
    "ivae": (None, Figure(0.53, 0.02)),
    "pcl": (None, Figure(0.59, 0.04)),
    "mechtrace": (Figure(0.94, 0.05), Figure(0.96, 0.03)),
}

#: Tables 2 and "Extended SNR validation": MCC, correlation, error raw and calibrated, smallest
#: singular value, mean residual, approximation error, effective signal-to-noise ratio.
SWEEP_COLUMNS = (
    "mcc", "corr", "mae_raw", "mae_calibrated", "sigma_min", "noise", "delta_approx", "snr",
)  # fmt: skip
#: By noise, at an edge of 0.5.
NOISE = {
    0.01: _row(0.996, 0.998, 0.077, 0.028, 0.830, 1.919, 0.100, 0.411),
    0.05: _row(0.994, 0.998, 0.106, 0.026, 0.729, 1.779, 0.100, 0.388),
    0.10: _row(0.984, 0.998, 0.254, 0.030, 0.482, 1.820, 0.100, 0.251),
    0.20: _row(0.849, 0.996, 0.278, 0.026, 0.207, 1.950, 0.100, 0.101),
    0.50: _row(0.703, 0.854, 0.321, 0.127, 0.150, 2.400, 0.100, 0.060),
}
#: By size of the change, at noise 0.1.
PERTURBATION = {
    0.1: _row(0.934, 0.972, 0.319, 0.063, 0.066, 1.435, 0.100, 0.043),
    0.2: _row(0.953, 0.996, 0.292, 0.025, 0.076, 1.517, 0.100, 0.047),
    0.3: _row(0.970, 0.997, 0.266, 0.030, 0.157, 1.588, 0.100, 0.093),
    0.5: _row(0.984, 0.998, 0.254, 0.030, 0.482, 1.820, 0.100, 0.251),
    0.7: _row(0.990, 0.998, 0.194, 0.024, 0.674, 2.060, 0.100, 0.312),
}

#: Share of the errors below the bound of Theorem 2 (the figure: all below y = x), and the power of
#: T with which Theorem 3 lets the mean squared error fall.
BELOW_BOUND, SMOOTH_RATE = Figure(1.0), Figure(-2 / 3)

#: The trajectory 0 -> 2 -> 4, and the mean squared error of a calibrated two-regime change.
TRAJECTORY, CALIBRATION = Figure(0.99), Figure(0.0005)

#: "Full scaling results" by active regimes, K = 10, in three schedules: alpha, and W.
SCALING = {
    2: (Figure(0.993, 0.004), Figure(0.997, 0.002), Figure(0.979, 0.003)),
    3: (Figure(0.989, 0.004), Figure(0.989, 0.006), Figure(0.971, 0.009)),
    4: (Figure(0.988, 0.003), Figure(0.982, 0.004), Figure(0.919, 0.016)),
    5: (Figure(0.979, 0.007), Figure(0.965, 0.014), Figure(0.835, 0.035)),
    6: (Figure(0.968, 0.009), Figure(0.957, 0.012), Figure(0.692, 0.050)),
    7: (Figure(0.776, 0.053), Figure(0.735, 0.061), Figure(0.459, 0.052)),
    8: (Figure(0.462, 0.084), Figure(0.389, 0.091), Figure(0.136, 0.094)),
    9: (Figure(0.289, 0.089), Figure(0.222, 0.112), Figure(0.046, 0.057)),
    10: (Figure(0.304, 0.060), Figure(0.252, 0.090), Figure(0.041, 0.036)),
}
SCALING_W = {
    2: _row(1.000, 1.000, 1.000),
    3: _row(1.000, 1.000, 1.000),
    4: _row(0.999, 0.999, 0.999),
    5: _row(0.999, 0.999, 0.999),
    6: _row(0.998, 0.999, 0.999),
    7: _row(0.995, 0.996, 0.998),
    8: _row(0.988, 0.992, 0.995),
    9: _row(0.988, 0.993, 0.996),
    10: _row(0.989, 0.993, 0.997),
}

#: Properties of the schedules: regimes active at once at most ("2-3" and "all" of 5 printed), peak
#: weight, and whether each regime only rises and then falls.
SCHEDULE_COLUMNS = ("active at once", "peak", "monotone segments")
SCHEDULES = {
    "simple": _row(2, 1.0, 1),
    "medium": _row(3, 0.7, 1),
    "complex": _row(5, 0.5, 0),
}

#: Model capacity: alpha in three schedules by active regimes with K = 5; K = 10 is as above.
CAPACITY = {
    2: _row(0.981, 0.990, 0.975),
    3: _row(0.986, 0.984, 0.953),
    4: _row(0.984, 0.974, 0.903),
    5: _row(0.980, 0.970, 0.810),
}

#: Smoothing window (5 active, complex): correlation and mean absolute error.
WINDOW = {
    0: (Figure(0.575, 0.023), Figure(0.106, 0.004)),
    3: (Figure(0.859, 0.022), Figure(0.057, 0.002)),
    5: (Figure(0.890, 0.018), Figure(0.050, 0.004)),
    7: (Figure(0.900, 0.017), Figure(0.050, 0.004)),
    10: (Figure(0.876, 0.014), Figure(0.059, 0.003)),
}

#: Sample efficiency by recordings of each regime: MCC, correlation with 3 and with 5 active.
SAMPLES = {
    40_000: _row(0.963, 0.986, 0.979),
    8_000: (Figure(0.886, 0.088), Figure(0.968, 0.014), Figure(0.955, 0.022)),
    4_000: (Figure(0.752, 0.163), Figure(0.960, 0.013), Figure(0.941, 0.014)),
    400: (Figure(0.622, 0.069), Figure(0.688, 0.377), Figure(0.640, 0.169)),
}

#: 50 regimes, 5 active: by latents (dense changes), and by two changed edges with 8 latents.
BEYOND = {8: Figure(0.925, 0.052), 16: Figure(0.962, 0.010), 128: Figure(0.989, 0.002)}
BEYOND_SPARSE = Figure(0.979, 0.006)

#: Two stages: correlation and mean squared error.
OOD = {
    ("ID", "stage 1 only"): (Figure(0.990), Figure(0.014)),
    ("OOD", "stage 1 only"): (Figure(0.313), Figure(0.200)),
    ("OOD", "two stages"): (Figure(0.945), Figure(0.021)),
}

#: Impure mechanisms: MCC, correlation, smallest singular value.
IMPURITY = {
    0.0: (Figure(0.984, 0.016), Figure(0.996, 0.001), Figure(0.168)),
    0.2: (Figure(0.975, 0.002), Figure(0.981, 0.002), Figure(0.126)),
    0.5: (Figure(0.943, 0.032), Figure(0.936, 0.033), Figure(0.049)),
}

#: Another number of regimes in training than there are.
MISSPECIFIED = {
    "as many as there are": Figure(0.971),
    "two too many, not active": Figure(0.966),
    "two too many, active": Figure(0.553),
    "two too few, seen regimes": Figure(0.949),
    "two too few, unseen regimes": Figure(0.244),
}

#: The cart with a pole: MCC of position and angle, correlation with three active regimes.
CARTPOLE_MCC, CARTPOLE = Figure(0.970), Figure(0.95)

#: Gait: correlation with the speed of the hips over test trials, and in the trial of the figure.
GAIT = Figure(0.856, 0.043)
GAIT_SHOWN = {"TRACE": Figure(0.917), "nctrl-hard": Figure(0.619)}
#: A turning vehicle: correlation with the direction of travel in one sequence of 26 frames.
VEHICLE = {
    "TRACE": Figure(0.960),
    "nctrl-hard": Figure(0.239),
    "centroid": Figure(0.911),
    "optical flow": Figure(0.902),
}

#: Simplex and free weights: correlation, share of negative weights, lowest and highest weight.
SIMPLEX = {
    "simplex": _row(0.956, 0.0, 0.03, 0.86),
    "free": _row(0.971, 0.18, -0.10, 1.01),
}
