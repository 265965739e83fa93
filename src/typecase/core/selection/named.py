"""Policies by name: the published ways to select, each as the one `Policy` that it is.

    uniform                       random documents, in proportion to every stratum
    top                           the best by score in every stratum
    threshold:4                   random documents with a score of at least 4
    sampled:2                     by score with chance: temperature 2 on the score normalised over the corpus
    per-token                     by what a token of the budget buys: draws in proportion to score / tokens
    dataman:CRITERION             the best by one criterion in every source and domain
    dataman:overall=5             random documents with that overall score; overall=4-5 for a range
    dataman:sum                   the best by the sum of all criteria and the overall score
    dataman:proportional          draws in proportion to the overall score (the paper's equation 4)
    qurating:2                    draws by exp(z / 2), z the score normalised over the corpus, a quota for every source
    qurating-mix:2                its four criteria, each for a quarter; filled up with random documents
    dsir, dsir:per-word, dsir:2   draws by importance: exp(log-weight), of its mean over words, or tempered by 2
    perplexity:low, :high         the least, the most surprising of every source
    perplexity:middle[:25-75]     nearest to the median; or random ones between two percentiles
    quadmix[:lambda,omega,eta,epsilon]    copies by a curve over the rank in the domain

`@law+medicine` behind a name keeps to these domains. Sources: DataMan arXiv 2502.19363, QuRating arXiv 2402.09739, DSIR
arXiv 2302.03169, QuaDMix arXiv 2504.16511.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from typecase.core.selection.policy import Policy
from typecase.core.selection.quadmix import Curve, QuadMix
from typecase.errors import FixInput

Terms = str | tuple[tuple[str, float], ...]

PERPLEXITY, LOG_WEIGHT, LOG_WEIGHT_PER_WORD = "perplexity", "log_weight", "log_weight_per_word"
"""Columns of side tables: mean nats of a scored token; what `importance` says, as a sum or a word's share."""

DATAMAN = (
    "accuracy", "coherence", "language_consistency", "semantic_density", "knowledge_novelty", "topic_focus", "creativity",
    "professionalism", "style_consistency", "grammatical_diversity", "structural_standardization", "originality",
    "sensitivity",
)  # fmt: skip
OVERALL = "overall_score"
QURATING = ("writing_style", "facts_and_trivia", "educational_value", "required_expertise")

NAMES = (
    "uniform",
    "top",
    "threshold",
    "sampled",
    "per-token",
    "dataman",
    "qurating",
    "qurating-mix",
    "dsir",
    "perplexity",
    "quadmix",
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a name says, and what stands beside it: (name, what follows its colon), score and strata as given."""

    name: str
    rest: str
    score: Terms | None
    strata: tuple[str, ...]

    @property
    def scored(self) -> Terms:
        return self.score or OVERALL

    @property
    def by_source(self) -> tuple[str, ...]:
        """The strata without the domain, for what is published with a quota for every source."""
        return self.strata if self.strata != ("source", "domain") else ("source",)

    def number(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise FixInput(f"policy {self.name!r}: {text!r} is not a number") from None


def named_policy(
    name: str,
    *,
    score: Terms | None = None,
    strata: tuple[str, ...] = ("source", "domain"),
    inverse: bool = False,
) -> Policy:
    """A policy by name; `score` is the column that a name goes by which does not say one (overall_score by default).

    inverse: its negative control, the worst first, or what its filters leave out. Raises FixInput for another name, or a
    number that is missing or not one.
    """
    spec, _, domains = name.partition("@")
    word, _, rest = spec.partition(":")
    made = _MAKERS[word](_Asked(name, rest, score, strata)) if word in _MAKERS else None
    if made is None:
        raise FixInput(f"a policy is one of {USAGE}, or a Policy(…); got {name!r}")
    if domains:
        if "domain" not in made.strata:
            made = replace(made, strata=(*made.strata, "domain"))
        made = replace(made, only={"domain": domains.split("+")})
    return replace(made, inverted=made.inverted != inverse)


USAGE = (
    "uniform, top, threshold:SCORE, sampled:TEMPERATURE, per-token, dataman:CRITERION|overall=LEVEL|sum|proportional,"
    " qurating:TEMPERATURE, qurating-mix, dsir[:per-word|:TEMPERATURE], perplexity:low|high|middle[:FROM-TO],"
    " quadmix[:LAMBDA,OMEGA,ETA,EPSILON]"
)


def _uniform(asked: _Asked) -> Policy | None:
    return None if asked.rest else Policy(key="uniform", score=asked.scored, strata=asked.strata)


def _top(asked: _Asked) -> Policy | None:
    return None if asked.rest else Policy(key="top_k", score=asked.scored, strata=asked.strata)


def _threshold(asked: _Asked) -> Policy | None:
    if not asked.rest:
        return None
    return Policy(key="uniform", score=asked.scored, strata=asked.strata, at_least=asked.number(asked.rest))


def _sampled(asked: _Asked) -> Policy:
    temperature = asked.number(asked.rest) if asked.rest else 2.0
    return Policy(key="gumbel", score=asked.scored, strata=asked.strata, temperature=temperature, normalise="corpus")


def _per_token(asked: _Asked) -> Policy | None:
    return None if asked.rest else Policy(key="per_token", score=asked.scored, strata=asked.strata)


def _dataman(asked: _Asked) -> Policy | None:
    kind = asked.rest
    if found := re.fullmatch(r"overall=(\d+(?:\.\d+)?)(?:-(\d+(?:\.\d+)?))?", kind):
        low = float(found[1])
        return Policy(key="uniform", strata=asked.strata, at_least=low, at_most=float(found[2] or low))
    if kind == "sum":
        return Policy(score=tuple((column, 1.0) for column in (*DATAMAN, OVERALL)), strata=asked.strata)
    if kind == "proportional":
        return Policy(key="proportional", strata=asked.strata)
    if kind in (*DATAMAN, OVERALL):
        return Policy(score=kind, strata=asked.strata)
    if not kind:
        return None
    known = ", ".join((*DATAMAN, OVERALL))
    raise FixInput(f"policy {asked.name!r}: a criterion is one of {known}, or overall=LEVEL, sum, proportional")


def _qurating(asked: _Asked) -> Policy:
    return replace(_sampled(asked), strata=asked.by_source)


def _qurating_mix(asked: _Asked) -> Policy:
    return replace(_qurating(asked), score=QURATING[0], each=QURATING)


def _dsir(asked: _Asked) -> Policy:
    """The reference draws by the log-weight itself, and over the whole corpus."""
    per_word, _, tempered = asked.rest.partition(":") if asked.rest.startswith("per-word") else ("", "", asked.rest)
    column = LOG_WEIGHT_PER_WORD if per_word else LOG_WEIGHT
    if per_word not in ("", "per-word"):
        raise FixInput(f"policy {asked.name!r}: dsir, dsir:TEMPERATURE, dsir:per-word or dsir:per-word:TEMPERATURE")
    temperature = asked.number(tempered) if tempered else 1.0
    return Policy(key="gumbel", score=column, strata=asked.by_source, temperature=temperature)


def _perplexity(asked: _Asked) -> Policy | None:
    end, _, band = asked.rest.partition(":")
    if end in ("low", "high") and not band:
        return Policy(score=PERPLEXITY, strata=asked.by_source, inverted=end == "low")
    if end != "middle":
        return None
    if not band:
        return Policy(key="middle", score=PERPLEXITY, strata=asked.by_source)
    low, _, high = band.partition("-")
    between = (asked.number(low) / 100, asked.number(high) / 100)
    return Policy(key="uniform", score=PERPLEXITY, strata=asked.by_source, between=between)


def _quadmix(asked: _Asked) -> Policy:
    numbers = [asked.number(text) for text in asked.rest.split(",")] if asked.rest else []
    if len(numbers) not in (0, 4):
        raise FixInput(f"policy {asked.name!r}: quadmix takes lambda, omega, eta and epsilon, as quadmix:100,0.3,1,0.001")
    strata = ("domain",) if "domain" in asked.strata else asked.strata
    mix = QuadMix(Curve(*numbers)) if numbers else QuadMix()
    return Policy(key="uniform", score=asked.scored, strata=strata, quota="pool", epochs=3, quadmix=mix)


_MAKERS: dict[str, Callable[[_Asked], Policy | None]] = {
    "uniform": _uniform,
    "top": _top,
    "threshold": _threshold,
    "sampled": _sampled,
    "per-token": _per_token,
    "dataman": _dataman,
    "qurating": _qurating,
    "qurating-mix": _qurating_mix,
    "dsir": _dsir,
    "perplexity": _perplexity,
    "quadmix": _quadmix,
}
