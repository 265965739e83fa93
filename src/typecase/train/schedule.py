"""Schedule: the learning rate of a step, up in a line and down as a cosine (Loshchilov & Hutter 2017, arXiv 1608.03983).

      ╭──╮
     ╱    ╲__          step 0 has learning_rate / warmup, step warmup has learning_rate,
    ╱        ╲______   the last step has min_learning_rate
step 0   warmup    steps - 1
"""

from __future__ import annotations

import math

from typecase.train.config import TrainPlan


def rate_at(step: int, plan: TrainPlan) -> float:
    """The learning rate of `step`, counted from 0."""
    if step < plan.warmup:
        return plan.learning_rate * (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.steps - 1 - plan.warmup)
    fall = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    return plan.min_learning_rate + (plan.learning_rate - plan.min_learning_rate) * fall
