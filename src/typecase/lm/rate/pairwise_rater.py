"""PairwiseRater: a document is placed by comparing it with anchors, documents whose scores are known.

    anchors   -2.1 ── -0.8 ── 0.1 ── 0.9 ── 2.3       first some, spread evenly; then those nearest to where it seems to stand
                                ▲  wins, loses, wins ─► log-odds ─► chance to beat a random anchor ─► the rubric's scale

    kind = "pairwise"                  rater.toml, as `typecase compare` writes it
    model = "models/smollm2"
    rubric = "qurating"
    criteria = ["educational_value"]
    anchors = "anchors.jsonl"          {"id": …, "text": …, "log_odds": {"educational_value": 0.9}}

A score is relative to the anchors: 3 of 1..5 beats half of them. Confidence is not told, for nothing was measured that
would make it one. The answer to a document depends on its text, the anchors and the model alone.

Price: (first + then) x 2 prompts for each criterion of a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from typecase.core.pairwise import PRIOR_SPREAD, win_share
from typecase.core.rating import Criterion, Rubric
from typecase.errors import BadRecipe, NotFound
from typecase.lm.protocol import LM, fingerprint_of
from typecase.lm.rate.pairwise import VOTES, WORDS, excerpts_of, judge_pairs
from typecase.lm.rate.rater import OK, PARTIAL, RATER_FAILED, U8, Ratings, unrated
from typecase.lm.rate.rubric import load_rubric

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

FIRST, THEN = 6, 6
_KEYS = {"kind", "model", "rubric", "criteria", "anchors", "first", "then", "words", "votes", "seed", "name"}


@dataclass(frozen=True, slots=True)
class Anchors:
    """Documents with known scores: `log_odds` float64 (anchors, criteria)."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    log_odds: F64

    @property
    def fingerprint(self) -> str:
        """Of ids, texts and scores."""
        return fingerprint_of(list(self.ids), list(self.texts), self.log_odds.tolist())


@dataclass(frozen=True, slots=True)
class PairwiseRater:
    """See the module."""

    lm: LM
    rubric: Rubric
    anchors: Anchors
    first: int = FIRST
    then: int = THEN
    words: int = WORDS
    votes: int = VOTES
    seed: int = 0
    name: str = "pairwise"
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        """Of the model, the rubric, the anchors and how they are asked."""
        how = (self.first, self.then, self.words, self.votes, self.seed)
        return fingerprint_of("pairwise", 1, self.lm.fingerprint, self.rubric.fingerprint, self.anchors.fingerprint, how)

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Scores on the rubric's scale; `partial` where a criterion has no valid answer, `rater_failed` where none has."""
        ratings = unrated(self.rubric, len(offsets) - 1)
        raw = [values[offsets[doc] : offsets[doc + 1]].tobytes() for doc in range(len(ratings))]
        texts = [data.decode("utf-8", "replace") for data in raw]
        asked = [doc for doc, text in enumerate(texts) if text.strip()]
        span = self.rubric.high - self.rubric.low
        for column, criterion in enumerate(self.rubric.criteria):
            known = self.anchors.log_odds[:, column]
            for doc, place in zip(asked, self._place([texts[doc] for doc in asked], criterion, known), strict=True):
                if not np.isnan(place):
                    ratings.scores[doc, column] = self.rubric.low + span * win_share(np.array([place]), known)[0]
        for doc in asked:
            missing = int(np.isnan(ratings.scores[doc]).sum())
            whole = missing == len(self.rubric.criteria)
            ratings.status[doc] = RATER_FAILED if whole else PARTIAL if missing else OK
            ratings.rated_bytes[doc] = 0 if whole else len(raw[doc])
        return ratings

    def _place(self, texts: list[str], criterion: Criterion, known: F64) -> F64:
        """Log-odds of each text, NaN where no comparison was valid."""
        order = np.argsort(known, kind="stable")
        spread = order[np.unique(np.linspace(0, len(order) - 1, min(self.first, len(order))).round().astype(np.int64))]
        chosen = [spread.tolist() for _ in texts]
        chances = self._ask(texts, chosen, criterion)
        place = np.array([most_likely(known[c], p) for c, p in zip(chosen, chances, strict=True)])
        near = []
        for own, used in zip(place.tolist(), chosen, strict=True):
            rest = [k for k in order.tolist() if k not in used]
            near.append(sorted(rest, key=lambda k: (abs(known[k] - (0 if np.isnan(own) else own)), k))[: self.then])
        more = self._ask(texts, near, criterion)
        both = zip(chosen, near, chances, more, strict=True)
        return np.array([most_likely(known[c + n], np.concatenate([p, q])) for c, n, p, q in both])

    def _ask(self, texts: list[str], chosen: list[list[int]], criterion: Criterion) -> list[F64]:
        """For each text the chances that it beats its chosen anchors."""
        pairs = []
        for text, own in zip(texts, chosen, strict=True):
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            for k in own:
                anchor = self.anchors.texts[k]
                cut = excerpts_of(anchor, text, words=self.words, key=(self.seed, digest, self.anchors.ids[k]))
                pairs.append((anchor[slice(*cut.first)], text[slice(*cut.second)]))
        said = [one.chance for one in judge_pairs(self.lm, pairs, criterion, votes=self.votes, seed=self.seed)]
        cuts = np.cumsum([len(own) for own in chosen])[:-1]
        return list(np.split(np.array(said, np.float64), cuts)) if chosen else []


def most_likely(known: F64, chances: F64) -> float:
    """The log-odds of an item that beats items of log-odds `known` with `chances`, under the prior; NaN without a valid one."""
    valid = ~np.isnan(chances)
    if not valid.any():
        return float("nan")
    against, won = known[valid], chances[valid]
    place = 0.0
    for _ in range(50):
        said = 1 / (1 + np.exp(against - place))
        move = float(((won - said).sum() - place / PRIOR_SPREAD**2) / ((said * (1 - said)).sum() + 1 / PRIOR_SPREAD**2))
        place += float(np.clip(move, -2, 2))
        if abs(move) < 1e-10:
            break
    return place


def rubric_of(rubric: Rubric, criteria: tuple[str, ...]) -> Rubric:
    """The rubric with these criteria alone, in their order in it, and without domains."""
    wanted = {rubric.criterion(name).id for name in criteria}
    kept = tuple(c for c in rubric.criteria if c.id in wanted)
    return replace(rubric, criteria=kept, domains=(), summary=rubric.summary if rubric.summary in wanted else None)


def read_anchors(path: Path, rubric: Rubric) -> Anchors:
    """Anchors of a JSON-lines file. Raises NotFound, BadRecipe naming the line."""
    if not path.is_file():
        raise NotFound(f"no anchors at {path}: `typecase compare` writes them, or give id, text and log_odds a line")
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = orjson.loads(line)
            rows.append((str(row["id"]), str(row["text"]), [float(row["log_odds"][c]) for c in rubric.columns]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise BadRecipe(f"{path}, line {number} is no anchor of {', '.join(rubric.columns)}: {error!r}") from None
    if len(rows) < 2:
        raise BadRecipe(f"{path} has {len(rows)} anchors; two are the least, twenty are better")
    return Anchors(tuple(r[0] for r in rows), tuple(r[1] for r in rows), np.array([r[2] for r in rows], np.float64))


def open_pairwise(table: Mapping[str, Any], where: Path) -> PairwiseRater:
    """The rater that a table of `rater.toml` describes; relative paths are taken from the folder of `where`."""
    from typecase.lm.models import open_lm

    folder = where if where.is_dir() else where.parent
    if unknown := sorted(set(table) - _KEYS):
        raise BadRecipe(f"{where}: a pairwise rater has no '{unknown[0]}'; it has {', '.join(sorted(_KEYS))}")
    if missing := sorted({"model", "anchors"} - set(table)):
        raise BadRecipe(f"{where}: a pairwise rater needs '{missing[0]}'")
    named = folder / str(table.get("rubric", "qurating"))
    rubric = load_rubric(named if named.is_file() else str(table.get("rubric", "qurating")))
    rubric = rubric_of(rubric, tuple(table.get("criteria", rubric.columns)))
    numbers: dict[str, Any] = {key: int(table[key]) for key in ("first", "then", "words", "votes", "seed") if key in table}
    anchors = read_anchors(folder / str(table["anchors"]), rubric)
    return PairwiseRater(
        open_lm(table["model"], where=folder), rubric, anchors, name=str(table.get("name", "pairwise")), **numbers
    )
