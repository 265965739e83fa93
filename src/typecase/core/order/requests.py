"""How many samples a training run asks of each split, from the numbers of its configuration.

                train_iters = 1000, eval_interval = 100, eval_iters = 10, batch = 16
    train       1000 * 16                                16,000
    valid       (1000 // 100 + 1) * 10 * 16               1,760
    test        10 * 16                                     160

The numbers decide how many epochs an order has, and stand in the names of its cache files. Price: a microsecond.
"""

from __future__ import annotations

from typing import TypeAlias

from typecase.core.order.order import Split
from typecase.errors import BadQuery

Requests: TypeAlias = dict[Split, int]


def requested_samples(*, train_iters: int, train_batch_size: int, eval_interval: int, eval_iters: int) -> Requests:
    """What GPT-NeoX asks; the batch is that of a whole step (micro batch * gradient accumulation steps * data parallel)."""
    _check(train_iters=train_iters, train_batch_size=train_batch_size, eval_iters=eval_iters, eval_interval=eval_interval)
    return {
        "train": train_iters * train_batch_size,
        "valid": (train_iters // eval_interval + 1) * eval_iters * train_batch_size,
        "test": eval_iters * train_batch_size,
    }


def megatron_requested_samples(
    *,
    global_batch_size: int,
    eval_interval: int,
    eval_iters: int,
    train_iters: int | None = None,
    train_samples: int | None = None,
    eval_global_batch_size: int | None = None,
    phase_samples: int | None = None,
    full_validation: bool = False,
    skip_train: bool = False,
    start_eval_at_iter: int | None = None,
) -> dict[Split, int | None]:
    """What Megatron-LM asks; None is one epoch.

    Give `train_iters`, or `train_samples` and with it the `train_iters` that the batch sizes make of them where those are no
    constant. `phase_samples` is what the current phase trains on, with phase transitions.
    """
    if train_iters is None and train_samples is None:
        raise BadQuery("neither train_iters nor train_samples is given: Megatron-LM needs one of them")
    _check(global_batch_size=global_batch_size, eval_interval=eval_interval, eval_iters=eval_iters)
    iters = train_iters if train_iters is not None else (train_samples or 0) // global_batch_size
    samples = train_samples if train_samples is not None else iters * global_batch_size
    evaluated = eval_iters * (eval_global_batch_size or global_batch_size)
    skipped = (start_eval_at_iter or 0) // eval_interval
    runs = 1 if skip_train else max(iters // eval_interval + 1 - skipped, 0)
    return {
        "train": samples if phase_samples is None else phase_samples,
        "valid": None if full_validation else runs * evaluated,
        "test": evaluated,
    }


def _check(**numbers: int) -> None:
    for name, value in numbers.items():
        least = 1 if name == "eval_interval" or name.endswith("batch_size") else 0
        if value < least:
            raise BadQuery(f"{name} is {value}: it is {least} or more")
