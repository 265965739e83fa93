"""Budget and Policy: how much is kept, what is better, how much chance, and how the budget is divided."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from typecase.core.selection.quadmix import QuadMix
from typecase.core.selection.quota import Label
from typecase.errors import BadQuery, FixInput

KeyKind = Literal["top_k", "gumbel", "proportional", "per_token", "middle", "uniform"]
QuotaMode = Literal["corpus", "pool", "equal", "tempered", "table"]
CutMode = Literal["over", "under", "nearest"]
Missing = Literal["exclude", "lowest", "stratum_mean"]
Normalise = Literal["none", "corpus", "stratum", "rank", "stratum_rank"]
Scope = Literal["corpus", "stratum"]
SpillMode = Literal["siblings", "none", "refuse"]
Unit = Literal["tokens", "documents", "bytes"]

_CHOICES = {
    "key": ("top_k", "gumbel", "proportional", "per_token", "middle", "uniform"),
    "quota": ("corpus", "pool", "equal", "tempered", "table"),
    "cut": ("over", "under", "nearest"),
    "missing": ("exclude", "lowest", "stratum_mean"),
    "normalise": ("none", "corpus", "stratum", "rank", "stratum_rank"),
    "spill": ("siblings", "none", "refuse"),
}
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}
_UNITS: dict[str, Unit] = {"tokens": "tokens", "docs": "documents", "documents": "documents", "bytes": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much to keep: exactly one of tokens, documents, bytes (of UTF-8 text)."""

    tokens: int | None = None
    documents: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        given = {unit: n for unit in ("tokens", "documents", "bytes") if (n := getattr(self, unit)) is not None}
        if len(given) != 1:
            raise FixInput(f"a budget is one of tokens, documents, bytes; got {given or 'none of them'}")
        ((unit, amount),) = given.items()
        if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount < 1 << 62:
            raise FixInput(f"a budget is a whole number of {unit} from 0 to 2**62, got {amount!r}")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """A budget as people write it: "10M tokens", "250k docs", "1.5B" (tokens), "2G bytes". Raises BadQuery."""
        found = re.fullmatch(r"\s*([\d_]+(?:\.\d+)?)\s*([kKmMgGbBtT]?)\s*([a-z]*)\s*", text)
        unit = _UNITS.get(found[3] or "tokens") if found else None
        if found is None or unit is None:
            raise BadQuery(f'a budget reads like "10M tokens", "250k documents" or "2G bytes", got {text!r}')
        return cls(**{unit: int(Fraction(found[1].replace("_", "")) * _SCALES[found[2].lower()])})

    @property
    def unit(self) -> Unit:
        return "tokens" if self.tokens is not None else "documents" if self.documents is not None else "bytes"

    @property
    def amount(self) -> int:
        return int(getattr(self, self.unit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is kept first, and how the budget is divided.

    key          top_k         the score itself; ties by document hash
                 gumbel        score / temperature + Gumbel noise: draws without replacement in proportion to
                               exp(score / temperature) (Plackett-Luce); temperature 0 is top_k
                 proportional  log(score) + Gumbel noise: draws in proportion to the score; a zero is taken last
                 per_token     log(score / tokens) - log(E), E ~ Exp(1): draws in proportion to the score that a token
                               of the budget buys
                 middle        nearest to the median of its stratum first
                 uniform       noise alone; the score is not looked at
    score        a rating column, or ((column, weight), …) to be added up
    each         columns that draw one after the other by the same policy, each for an equal part of the budget; what
                 two of them take counts once, and the rest is filled up with random documents
    normalise    the score becomes (score - mean) / std over the rated corpus or over its stratum, or its rank there, from
                 0 to 1: "rank" and "stratum_rank" (top_k, gumbel)
    inverted     the worst first: the negative control of every kind; with key="uniform", what the filters leave out
    at_least, at_most    only scores in [at_least, at_most], before normalising
    between      only documents whose rank in their stratum lies in [low, high], 0 to 1
    strata       columns whose labels form the strata
    only         {strata column: wanted labels}; the budget is divided over these strata alone
    quota        shares of the budget in proportion to the whole corpus, to the pool that the filters leave, equal,
                 tempered (corpus mass ** alpha), or by a table {"web": 0.7, "books/law": 0.3}; a key is a stratum or
                 its beginning, and a tuple where a label holds a slash
    floors, caps shares of the budget, keyed as the table is: a stratum, or all that begins so, gets at least, at most
    epochs       how often a document may be taken where its stratum holds less than its quota: whole copies of the
                 stratum first, then a cut
    quadmix      each document counts by a curve over its rank (see `QuadMix`); goes with key="uniform", quota="pool"
    cut          over: up to the document that reaches the quota; under: the one before; nearest: the closer of both
    missing      a document without a score is excluded, takes the lowest score of its stratum, or its stratum's mean
    spill        what a stratum cannot fill goes to its siblings, is left unmet, or is refused
    """

    key: KeyKind = "top_k"
    score: str | tuple[tuple[str, float], ...] = "overall_score"
    strata: tuple[str, ...] = ("source", "domain")
    temperature: float = 1.0
    normalise: Normalise = "none"
    each: tuple[str, ...] = ()
    inverted: bool = False
    at_least: float | None = None
    at_most: float | None = None
    between: tuple[float, float] | None = None
    only: Mapping[str, Sequence[str]] | tuple[tuple[str, tuple[str, ...]], ...] = ()
    quota: QuotaMode = "corpus"
    alpha: float = 1.0
    table: Mapping[str | Label, float] | tuple[tuple[Label, float], ...] = ()
    floors: Mapping[str | Label, float] | tuple[tuple[Label, float], ...] = ()
    caps: Mapping[str | Label, float] | tuple[tuple[Label, float], ...] = ()
    epochs: int = 1
    quadmix: QuadMix | None = None
    cut: CutMode = "over"
    missing: Missing = "exclude"
    spill: SpillMode = "siblings"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise FixInput(f"policy: {name} is one of {', '.join(choices)}; got {getattr(self, name)!r}")
        only = self.only.items() if isinstance(self.only, Mapping) else self.only
        object.__setattr__(self, "only", tuple(sorted((column, tuple(sorted(_names(labels)))) for column, labels in only)))
        for name in ("table", "floors", "caps"):
            given = getattr(self, name)
            rows = given.items() if isinstance(given, Mapping) else given
            object.__setattr__(self, name, tuple(sorted((_label(key), float(weight)) for key, weight in rows)))
        object.__setattr__(self, "strata", _names(self.strata))
        object.__setattr__(self, "each", _names(self.each))
        if isinstance(self.score, str):
            object.__setattr__(self, "score", ((self.score, 1.0),))
        _check_policy(self)

    @property
    def terms(self) -> tuple[tuple[str, float], ...]:
        """The score as ((column, weight), …)."""
        assert not isinstance(self.score, str)
        return self.score

    @property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        return {column: tuple(labels) for column, labels in dict(self.only).items()}

    @property
    def quota_table(self) -> dict[Label, float]:
        return {_label(key): weight for key, weight in dict(self.table).items()}

    @property
    def floor_table(self) -> dict[Label, float]:
        return {_label(key): share for key, share in dict(self.floors).items()}

    @property
    def cap_table(self) -> dict[Label, float]:
        return {_label(key): share for key, share in dict(self.caps).items()}

    @property
    def needs_score(self) -> bool:
        bounded = self.at_least is not None or self.at_most is not None or self.between is not None
        return self.key != "uniform" or bounded or self.quadmix is not None

    @property
    def filters(self) -> bool:
        """Whether it draws evenly among what its filters let through."""
        bounded = self.at_least is not None or self.at_most is not None or self.between is not None
        return self.key == "uniform" and bounded and self.quadmix is None

    @property
    def needs_seed(self) -> bool:
        drawn = self.key in ("uniform", "proportional", "per_token") or (self.key == "gumbel" and self.temperature > 0)
        return drawn or bool(self.each)

    @property
    def ranked(self) -> Scope | None:
        """Over what scores are ranked: the corpus, each stratum, or not at all."""
        if self.normalise == "rank":
            return "corpus"
        by_stratum = self.normalise == "stratum_rank" or self.between is not None or self.key == "middle"
        return "stratum" if by_stratum or self.quadmix is not None else None


def _names(value: Iterable[str]) -> tuple[str, ...]:
    """One name or several; a bare string is one, not its letters."""
    return (value,) if isinstance(value, str) else tuple(value)


def _label(key: str | Label) -> Label:
    return tuple(key.split("/")) if isinstance(key, str) else tuple(key)


def _check_policy(policy: Policy) -> None:
    if not policy.terms:
        raise FixInput("policy: a score is a column or ((column, weight), …), got nothing")
    if not 0 <= policy.temperature < float("inf"):
        raise FixInput(f"policy: a temperature is 0 or more, got {policy.temperature}")
    if policy.key in ("proportional", "per_token") and policy.normalise != "none":
        raise FixInput(f"policy: {policy.key} draws need scores >= 0 as they are: use normalise='none', or key='gumbel'")
    low = -float("inf") if policy.at_least is None else policy.at_least
    high = float("inf") if policy.at_most is None else policy.at_most
    if not low <= high:
        raise FixInput(f"policy: no score is at least {low} and at most {high}")
    if policy.between is not None and not 0 <= policy.between[0] < policy.between[1] <= 1:
        raise FixInput(f"policy: between is (low, high) with 0 <= low < high <= 1, got {policy.between}")
    if policy.normalise == "rank" and (policy.between is not None or policy.key == "middle" or policy.quadmix is not None):
        raise FixInput("policy: between, middle and quadmix rank inside strata: use normalise='stratum_rank' or 'none'")
    if policy.quadmix is not None and (policy.key != "uniform" or policy.between is not None or policy.normalise != "none"):
        raise FixInput("policy: quadmix goes with key='uniform', normalise='none' and without between")
    if not isinstance(policy.epochs, int) or not 1 <= policy.epochs <= 1000:
        raise FixInput(f"policy: epochs is a whole number from 1 to 1000, got {policy.epochs!r}")
    if len(set(policy.each)) != len(policy.each) or (policy.each and (policy.quadmix is not None or policy.epochs > 1)):
        raise FixInput(f"policy: each names different columns, with epochs=1 and without quadmix; got {policy.each}")
    for name, shares in (("floors", policy.floor_table), ("caps", policy.cap_table)):
        if any(not 0 <= share <= 1 for share in shares.values()):
            raise FixInput(f"policy: {name} are shares of the budget from 0 to 1, got {shares}")
    if not 0 <= policy.alpha <= 4:
        raise FixInput(f"policy: alpha is from 0 (equal) over 1 (proportional) to 4, got {policy.alpha}")
    if (policy.quota == "table") != bool(policy.table):
        raise FixInput(f"policy: quota='table' and a table go together; got quota={policy.quota!r}, table={policy.table!r}")
    if any(not 0 <= weight < float("inf") for weight in policy.quota_table.values()):
        raise FixInput(f"policy: the weights of a quota table are 0 or more, got {policy.quota_table}")
    if policy.quota == "table" and not any(policy.quota_table.values()):
        raise FixInput("policy: a quota table needs at least one weight above 0")
    unknown = [column for column in policy.wanted if column not in policy.strata]
    if unknown:
        raise FixInput(f"policy: only= names {unknown[0]!r}, which is not among the strata {policy.strata}")
