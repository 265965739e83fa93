"""The log-linear mixing law: the loss on target j of a model trained on mix w is L_j(w) = c_j + exp(t_j . w).

    t_jk  how domain k drives the loss of target j: the more negative, the more it helps
    c_j   what no mix can take away

The law is Ye et al. 2024 (Data Mixing Laws, 2403.16952) and the one that Olmix (2026) found best among regressors of few
proxies. A mix sums to 1, so a constant inside exp is a constant added to every t_jk: none is needed.

Fitted a target at a time: Huber's loss, whose width follows the residuals (1.345 robust standard deviations), plus a small
ridge that draws the t_jk of a target together, so that fewer proxies than domains, or domains that always go together,
still give one answer. Damped Gauss-Newton steps from several starts: a floor c below the smallest loss makes the law linear
in log(L - c), and the starts differ in that floor alone. The best end wins, the earlier at a tie. No chance is used.

Price: 512 proxies of 17 domains take some 50 ms a target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.errors import FixInput

F64 = npt.NDArray[np.float64]

DAMPING = 1e-3
"""Ridge on the t_jk about their mean, in units of one proxy's squared residual over the variance of the losses."""
STARTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Where the floors start: this many spreads (largest minus smallest loss) below the smallest loss."""
_HUBER = 1.345
_STEPS = 30
_ROUNDS = 3
_LEAST_WIDTH = 1e-2
"""In standard deviations of the losses: below it Huber's loss has corners so sharp that steps stall."""
_CLOSE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """`floor` (targets,) and `slope` (targets, domains) of L_j(w) = floor_j + exp(slope_j . w)."""

    floor: F64
    slope: F64

    def predict(self, mixes: npt.ArrayLike) -> F64:
        """Losses float64 (mixes, targets) of `mixes` (mixes, domains) whose rows sum to 1."""
        found: F64 = self.floor + np.exp(np.asarray(mixes, np.float64) @ self.slope.T)
        return found


def fit_law(mixes: npt.ArrayLike, losses: npt.ArrayLike, *, damping: float = DAMPING) -> Law:
    """The law of `mixes` (runs, domains) and `losses` (runs, targets). Raises FixInput for less than three runs, or NaN."""
    w, y = np.asarray(mixes, np.float64), np.asarray(losses, np.float64)
    if w.ndim != 2 or y.ndim != 2 or len(w) != len(y):
        raise FixInput(f"a law needs mixes (runs, domains) and losses (runs, targets), got {w.shape} and {y.shape}")
    if len(w) < 3 or not (np.isfinite(w).all() and np.isfinite(y).all()):
        raise FixInput(f"a law needs three runs or more, all numbers finite; got {len(w)} runs")
    fits = [_fit_target(w, y[:, j], damping) for j in range(y.shape[1])]
    return Law(np.array([floor for floor, _ in fits]), np.array([slope for _, slope in fits]).reshape(len(fits), w.shape[1]))


def _fit_target(w: F64, y: F64, damping: float) -> tuple[float, F64]:
    """(floor, slope) of one target. Losses are fitted in units of their standard deviation, measured from their minimum."""
    low, scale = float(y.min()), float(y.std())
    if scale <= 1e-12 * max(1.0, abs(low)):
        return low - 1.0, np.zeros(w.shape[1])
    z = (y - low) / scale
    ends = [_robust(w, z, _start(w, z, -gap * float(z.max())), damping) for gap in STARTS]
    width = min(end[1] for end in ends)
    costs = [round(_cost(_residuals(w, z, theta), theta, damping, width), 12) for theta, _ in ends]
    theta = ends[costs.index(min(costs))][0]
    return low + scale * float(theta[0]), theta[1:] + np.log(scale)


def _robust(w: F64, z: F64, theta: F64, damping: float) -> tuple[F64, float]:
    """(end, width): the width of Huber's loss follows the residuals, round by round, so outliers lose their pull."""
    width = np.inf
    for _ in range(_ROUNDS):
        rest = _residuals(w, z, theta)
        width = max(_HUBER * 1.4826 * float(np.median(np.abs(rest - np.median(rest)))), _LEAST_WIDTH)
        theta = _descend(w, z, theta, damping, width)
    return theta, width


def _start(w: F64, z: F64, floor: float) -> F64:
    """[floor, slope] that is least squares of log(z - floor) on w, with a light ridge about the mean."""
    goal = np.log(z - floor)
    centre = float(goal.mean())
    gram = w.T @ w + 1e-4 * len(w) / w.shape[1] * np.eye(w.shape[1])
    begin: F64 = np.concatenate([[floor], centre + np.linalg.solve(gram, w.T @ (goal - centre))])
    return begin


def _residuals(w: F64, z: F64, theta: F64) -> F64:
    rest: F64 = theta[0] + np.exp(np.minimum(w @ theta[1:], 50.0)) - z
    return rest


def _cost(rest: F64, theta: F64, damping: float, width: float) -> float:
    """Huber's loss, half a square within `width`, plus the ridge."""
    size = np.abs(rest)
    huber = np.where(size <= width, 0.5 * rest**2, width * (size - 0.5 * width) if np.isfinite(width) else 0.0)
    slope = theta[1:]
    return float(huber.sum() + 0.5 * damping * ((slope - slope.mean()) ** 2).sum())


def _descend(w: F64, z: F64, theta: F64, damping: float, width: float) -> F64:
    """Levenberg-Marquardt with Huber's weights from `theta`."""
    domains = w.shape[1]
    pull = np.zeros((domains + 1, domains + 1))
    pull[1:, 1:] = damping * (np.eye(domains) - 1.0 / domains)
    rest = _residuals(w, z, theta)
    cost, trust = _cost(rest, theta, damping, width), 1e-3
    for _ in range(_STEPS):
        trusted = np.minimum(1.0, width / np.maximum(np.abs(rest), 1e-300))
        lean = np.column_stack([np.ones(len(w)), (rest + z - theta[0])[:, None] * w])
        gram = lean.T @ (trusted[:, None] * lean) + pull
        slope = lean.T @ (trusted * rest) + pull @ theta
        step_cost = cost
        for _ in range(12):
            lift = trust * np.diag(np.diag(gram)) + 1e-12 * np.eye(domains + 1)
            tried = theta - np.linalg.solve(gram + lift, slope)
            new_rest = _residuals(w, z, tried)
            new_cost = _cost(new_rest, tried, damping, width)
            if new_cost < cost:
                theta, rest, cost, trust = tried, new_rest, new_cost, max(trust / 5, 1e-12)
                break
            trust *= 8
        if step_cost - cost <= _CLOSE * step_cost:
            break
    return theta
