"""NeoxOrder: the sample order of GPT-NeoX over one token set, for each of its packings.

    packed                sequences  all of the split, E times, shuffled as one row
                          rows       every L tokens along them
                          shuffle    0 ... N - 1, shuffled; the framework offers N - 1 of them
    pack_until_overflow   see `neox_lists`: whole documents, as many as fit; the framework counts them from the start of the
    unpacked              file, whatever the split (it takes a place of the split for a sequence number)

One stream of random numbers feeds all of it, anew from the seed for every split and every set of a blend. An index that cannot
be read is replaced by another, see `Tables.wraps`.

Price of packed: 4 bytes a sequence and epoch, 12 a sample, and a shuffle of each; nothing else is held while they are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from typecase.core.order.mersenne import Mersenne
from typecase.core.order.neox_lists import Documents, lay_lists
from typecase.core.order.order import Lengths, Split
from typecase.core.order.rows import sample_rows
from typecase.core.order.splits import neox_bounds
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery

PackingImpl: TypeAlias = Literal["packed", "pack_until_overflow", "unpacked"]

_INT32_MAX = (1 << 31) - 1
_SPLITS = ("train", "valid", "test")
_PACKINGS = ("packed", "pack_until_overflow", "unpacked")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoxParameters:
    """What an order and a blend have in common, named as in the framework's configuration.

    `num_samples` is how many are asked, `num_epochs` a number of epochs instead (training with `train_epochs` passes 1). With
    `pairwise` the sets are pairs of a chosen and a rejected text. Three switches are for old runs: `exposes_last_sample` before
    2021-07-19, when the framework offered all samples and replaced none, `rows_dtype` "int32" before 2023-03-15, and
    `compensated_sum` for Python 3.12 and later, where `sum` may differ in the last bit.
    """

    seq_length: int
    seed: int = 1234
    num_samples: int | None = None
    num_epochs: int | None = None
    packing_impl: PackingImpl = "packed"
    allow_chopped: bool = True
    pairwise: bool = False
    exposes_last_sample: bool = False
    rows_dtype: Literal["int32", "int64"] | None = None
    compensated_sum: bool = False

    def __post_init__(self) -> None:
        if self.packing_impl not in _PACKINGS:
            raise BadQuery(f"there is no packing {self.packing_impl!r}: choose one of {', '.join(_PACKINGS)}")
        if not 1 <= self.seq_length < _INT32_MAX:
            raise BadQuery(f"the sequence length {self.seq_length} is outside of 1 to {_INT32_MAX - 1}")
        if not 0 <= self.seed < 1 << 32:
            raise BadQuery(f"the seed {self.seed} is outside of 0 to 2^32 - 1")
        if self.rows_dtype not in (None, "int32", "int64"):
            raise BadQuery(f"rows are int32 or int64, got {self.rows_dtype!r}")
        self._check_sizes()
        self._check_packing()

    def _check_sizes(self) -> None:
        if self.num_samples is None and self.num_epochs is None:
            raise BadQuery("neither num_samples nor num_epochs is given: GPT-NeoX needs one of them")
        if self.num_samples is not None and self.num_samples < 0:
            raise BadQuery(f"num_samples is {self.num_samples}: ask for none or more")
        if self.num_epochs is not None and self.num_epochs < 1:
            raise BadQuery(f"num_epochs is {self.num_epochs}: ask for one or more")

    def _check_packing(self) -> None:
        if self.packing_impl == "packed":
            if self.pairwise:
                raise BadQuery("pairwise sets cannot be packed, GPT-NeoX refuses it: choose pack_until_overflow or unpacked")
            return
        if self.exposes_last_sample:
            raise BadQuery(f"packing {self.packing_impl!r} came in 2024, when the last sample was no longer exposed")
        if not self.num_samples:
            raise BadQuery(f"packing {self.packing_impl!r} takes its size from num_samples, which is {self.num_samples}")
        if self.num_epochs is not None:
            raise BadQuery(f"packing {self.packing_impl!r} knows no num_epochs (train_epochs): give num_samples alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoxOrder(NeoxParameters):
    """The order over one token set; `split` None for a file of a list of data paths, which holds one split alone."""

    split: str | None = "969, 30, 1"
    index_split: Split = "train"

    def __post_init__(self) -> None:
        super(NeoxOrder, self).__post_init__()  # slots make a new class, which super() without arguments does not know
        if self.index_split not in _SPLITS:
            raise BadQuery(f"there is no split {self.index_split!r}: choose one of {', '.join(_SPLITS)}")
        if self.split is not None:
            neox_bounds(self.split, 1, compensated=self.compensated_sum)

    def sequence_range(self, num_sequences: int) -> tuple[int, int]:
        """The sequences [begin, end) of the split. Raises BadQuery where the framework makes no data set of it."""
        if self.split is None:
            if not num_sequences:
                raise BadQuery("the token set holds no sequence, and GPT-NeoX stops there: leave it out")
            return 0, num_sequences
        borders = neox_bounds(self.split, num_sequences, compensated=self.compensated_sum).tolist()
        part = _SPLITS.index(self.index_split)
        begin, end = borders[part], borders[part + 1]
        if begin >= end:
            raise BadQuery(
                f"split {self.split!r} gives {self.index_split} none of {num_sequences} sequences, and GPT-NeoX makes no data"
                " set of it: give it a larger part"
            )
        if begin < 0:
            raise BadQuery(
                f"split {self.split!r} of {num_sequences} sequences lets {self.index_split} begin at sequence {begin}, where an"
                " assertion stops GPT-NeoX: give the parts before it more, or exactly 0"
            )
        return begin, end

    def epochs(self, lengths: Lengths) -> NeoxEpochs:
        """The epochs over sequences of these lengths."""
        begin, end = self.sequence_range(len(lengths))
        return neox_epochs(
            int(lengths[begin:end].sum(dtype=np.int64)),
            seq_length=self.seq_length,
            num_samples=self.num_samples,
            num_epochs=self.num_epochs,
        )

    def lay(
        self,
        lengths: Lengths,
        *,
        masked_prefix: npt.NDArray[Any] | None = None,
        rejected_lengths: Lengths | None = None,
        rejected_masked_prefix: npt.NDArray[Any] | None = None,
    ) -> Tables:
        """As `Order.lay`.

        With a label set, `masked_prefix` (sequences,) tells how many labels -100 each document begins with; `unpacked` needs
        one. A pairwise order takes the same of its rejected texts too. It is laid over the chosen ones; the rejected are read
        by the same tables with their lengths, `dataclasses.replace(tables, lengths=rejected_lengths)`.
        """
        if self.packing_impl == "packed":
            return self._packed(lengths)
        self.epochs(lengths)
        begin, end = self.sequence_range(len(lengths))
        documents = Documents.first(
            end - begin,
            lengths=lengths,
            masked_prefix=masked_prefix,
            rejected_lengths=rejected_lengths,
            rejected_masked_prefix=rejected_masked_prefix,
            pairwise=self.pairwise,
        )
        sequences, rows, shuffle = lay_lists(
            documents,
            Mersenne(self.seed),
            seq_length=self.seq_length,
            num_samples=self.num_samples or 0,
            allow_chopped=self.allow_chopped,
            unpacked=self.packing_impl == "unpacked",
        )
        return self._tables(sequences, rows, shuffle, lengths)

    def _packed(self, lengths: Lengths) -> Tables:
        begin, end = self.sequence_range(len(lengths))
        plan = self.epochs(lengths)
        rows_dtype = self.rows_dtype or plan.rows_dtype
        places = (end - begin) * plan.num_epochs
        if rows_dtype == "int32" and places - 1 > _INT32_MAX:
            raise BadQuery(
                f"the order has {places} places, and GPT-NeoX keeps them in int32 rows, where they overflow: use fewer epochs"
            )
        random = Mersenne(self.seed)
        sequences = np.tile(np.arange(begin, end, dtype=np.int32), plan.num_epochs)
        random.shuffle(sequences)
        rows = sample_rows(
            sequences,
            lengths,
            seq_length=self.seq_length,
            extra=1,
            num_samples=plan.num_samples,
            dtype=rows_dtype,
        )
        return self._tables(sequences, rows, random.shuffled_range(plan.num_samples, plan.shuffle_dtype), lengths)

    def _tables(self, sequences: Any, rows: Any, shuffle: Any, lengths: Lengths) -> Tables:
        return Tables(
            sequences=sequences,
            rows=rows,
            shuffle=shuffle,
            lengths=lengths,
            seq_length=self.seq_length,
            extra=1,
            num_samples=len(shuffle) - (0 if self.exposes_last_sample else 1),
            wraps=not self.exposes_last_sample,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoxEpochs:
    """How often the sequences are walked, how many samples that gives when packed, and the types of the arrays."""

    num_epochs: int
    num_samples: int
    rows_dtype: Literal["int32", "int64"]
    shuffle_dtype: Literal["uint32", "int64"]


def neox_epochs(
    tokens_per_epoch: int, *, seq_length: int, num_samples: int | None = None, num_epochs: int | None = None
) -> NeoxEpochs:
    """The epochs for `num_samples` samples, or those of `num_epochs`, from totals alone.

    Raises BadQuery where the framework would search without end or gives a data set of negative length.
    """
    if num_epochs is None and num_samples is None:
        raise BadQuery("neither num_samples nor num_epochs is given: GPT-NeoX needs one of them")
    if tokens_per_epoch < 1:
        raise BadQuery(
            "the split holds no token: GPT-NeoX would add epochs without end, or walk them in vain; give the split more"
        )
    needed = (num_samples or 0) * seq_length + 1
    epochs = num_epochs or -(-needed // tokens_per_epoch)
    found = (epochs * tokens_per_epoch - 1) // seq_length
    if found < 1:
        raise BadQuery(
            f"{epochs * tokens_per_epoch} tokens give no sample of {seq_length} inputs, and GPT-NeoX a data set of length -1:"
            " give the split more, ask for samples, or make them shorter"
        )
    return NeoxEpochs(
        num_epochs=epochs,
        num_samples=found,
        rows_dtype="int32" if 2 * ((epochs * tokens_per_epoch - 1) / seq_length + 1) < _INT32_MAX else "int64",
        shuffle_dtype="int64" if found >= (1 << 32) - 2 else "uint32",
    )
