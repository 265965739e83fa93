"""Rater data: rated documents as rows of token ids, prompt and reply, as the rater that is served will read them.

    document ─► view (within the window) ─► prompt of the form ─► ids        Encoder: the reader's own
    levels, domain ─► labels of the form's slots ─► reply ids                "E\\n4\\n5\\n…"  and the token that ends a reply

What a slot is filled with may differ from what must be said there: with `blank` the earlier gaps of a share of the rows hold
the filler label of the one-pass reading (slots.py), with `random` any label, so that a rater learns to read each slot for
itself. The targets always are the truth.

Which levels: `nearest` takes the whole level nearest to the readers' mean, halves upwards; `drawn` draws one of its two
neighbours anew in each epoch, so that the expected level is the mean, and a domain by the readers' votes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from typecase.core.selection.keys import derive_seed
from typecase.errors import BadQuery, BadRecipe
from typecase.lm.rate.cuts import cut_text, head_and_tail
from typecase.lm.rate.lm_rater import DOMAIN, Asking
from typecase.lm.rate.seeds import Seeds
from typecase.train.encoding import Encoder, Gap
from typecase.train.rows import Row
from typecase.train.sampling import nearest_levels

Long = Literal["window", "ends"]
ELLIPSIS = "..."
_SPARE = 8


@dataclass(frozen=True, slots=True)
class Showing:
    """How documents are shown.

    window   tokens of a text at most
    long     of a longer text: `window` shows one of the windows that a reader cuts, drawn anew in each epoch, with the
             rating of the whole; `ends` shows head and tail, with `ellipsis` between them
    blank    share of the rows whose earlier gaps hold the filler label
    random   share of the rows whose earlier gaps hold any labels
    drawn    whether levels are drawn
    """

    window: int
    long: Long = "window"
    ellipsis: str = ELLIPSIS
    blank: float = 0.0
    random: float = 0.0
    drawn: bool = False

    def __post_init__(self) -> None:
        if self.window < 2:
            raise BadQuery(f"a window has 2 tokens or more, got {self.window}")
        if self.blank < 0 or self.random < 0 or self.blank + self.random > 1:
            raise BadQuery(f"blank and random are shares, together at most 1, got {self.blank} and {self.random}")


class RaterData:
    """The rows of rated documents."""

    def __init__(self, seeds: Seeds, asking: Asking, encoder: Encoder, showing: Showing, *, seed: int) -> None:
        known = (DOMAIN, *seeds.rubric.columns) if seeds.rubric.domains else seeds.rubric.columns
        if unknown := [name for name in asking.asks if name not in known]:
            raise BadRecipe(f"the form asks for '{unknown[0]}', the annotations have {', '.join(known)}")
        self.seeds, self.asking, self.showing = seeds, asking, showing
        self._encoder, self._seed = encoder, seed
        self._gaps, self._end = encoder.gaps(asking.slots), encoder.end()

    def row(self, doc: int, *, epoch: int | None) -> Row:
        """The row of a document as it is shown in an epoch; None: the truth in every gap, nearest levels, the first window."""
        dice = None
        if epoch is not None:
            dice = np.random.default_rng(derive_seed(self._seed, f"{self.seeds.ids[doc]} {epoch}"))
        text = self.view(self.seeds.texts[doc], dice)
        (prompt,) = self._encoder.prompts([self.asking.prompt(text)])
        labels = self._labels(doc, dice)
        said = _reply(self._gaps, labels) + self._end
        read = _reply(self._gaps, self._fillers(labels, dice)) + self._end
        return Row((*prompt, *read[:-1]), said)

    def rows(self, docs: Iterable[int], *, epoch: int | None) -> list[Row]:
        """The rows of some documents."""
        return [self.row(int(doc), epoch=epoch) for doc in docs]

    def around(self) -> int:
        """Tokens of prompt and reply without a text, with a few to spare for what melts at their seams."""
        (prompt,) = self._encoder.prompts([self.asking.prompt("")])
        return len(prompt) + len(_reply(self._gaps, [0] * len(self._gaps))) + len(self._end) + _SPARE

    def view(self, text: str, dice: np.random.Generator | None = None) -> str:
        """What is shown of a text, cut as the reader cuts it."""
        if self.showing.long == "ends":
            cuts = head_and_tail(text, self.showing.window, self._encoder.sizes)
            return self.showing.ellipsis.join(text[cut.start : cut.stop] for cut in cuts)
        cuts = cut_text(text, self.showing.window, self._encoder.sizes)
        cut = cuts[0 if dice is None else int(dice.integers(len(cuts)))]
        return text[cut.start : cut.stop]

    def _labels(self, doc: int, dice: np.random.Generator | None) -> list[int]:
        """The label of each slot, by its place."""
        scores, votes = self.seeds.scores[doc], self.seeds.votes[doc]
        levels, domain = nearest_levels(scores), int(votes.argmax()) if len(votes) else 0
        if dice is not None and self.showing.drawn:
            levels = np.floor(scores + dice.random(len(scores))).astype(np.int64)
            domain = int(dice.choice(len(votes), p=votes)) if len(votes) else 0
        rubric = self.seeds.rubric
        places = dict(zip(rubric.columns, (np.clip(levels, rubric.low, rubric.high) - rubric.low).tolist(), strict=True))
        return [domain if name == DOMAIN else places[name] for name in self.asking.asks]

    def _fillers(self, labels: list[int], dice: np.random.Generator | None) -> list[int]:
        if dice is None:
            return labels
        coin = dice.random()
        if coin < self.showing.blank:
            return [len(gap.labels) // 2 for gap in self._gaps]
        if coin < self.showing.blank + self.showing.random:
            return [int(dice.integers(len(gap.labels))) for gap in self._gaps]
        return labels


def _reply(gaps: Sequence[Gap], labels: Sequence[int]) -> tuple[int, ...]:
    return tuple(token for gap, label in zip(gaps, labels, strict=True) for token in (*gap.before, *gap.labels[label]))
