"""Teacher: a strong language model as a rater. It is asked in words, and what it writes is read with care.

    teacher = Teacher(lm, prompt_form(load_rubric("dataman"), "teacher"))
    teacher.estimate_cost(texts)            before anything is sent
    ratings = teacher.rate(*pack_texts(texts))
    teacher.report()                        what came back in each round, code by code

    document ─► view ─► prompt ─► lm ─► read_reply ─► ok | repaired ─────────────────────► rating
                           ▲                             └── partial | rejected: the next round, another seed and temperature
                           └─────────────────────────────────────┘      after the last round the fullest reply counts

A reply is never guessed at (core/replies): what it does not say is missing, with a code. Replies of different rounds are
not mixed. Where the server tells log-probabilities, `scores` are expected levels and `Detail.surety` their least chance
(chances.py); elsewhere `scores` are what was written, fractions included. `Detail.levels` are the written levels.

View: `head_tail` shows the first and last half of `head_tail_chars` characters (and of `head_tail_tokens`, if given) of a
longer document, `Detail.windows` holds the two spans; `whole` shows all. For windows put a teacher into `WindowedRater`.
The document itself is never touched. Confidences are the model's own and not calibrated.

Same model, same cache, same text: same rating, whatever else is in the batch. Price: a request a document and round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from typecase.core.rating import Rubric
from typecase.core.replies import Reply, read_reply
from typecase.core.replies.reader import asked_for
from typecase.core.replies.reply import rejected
from typecase.errors import BadQuery
from typecase.lm.pace import Estimate, estimate
from typecase.lm.protocol import LASTING, LM, Answer, Failure, FailureKind, fingerprint_of, require
from typecase.lm.rate.chances import Chances, chances_at, tokens_of
from typecase.lm.rate.cuts import Cut, byte_bounds, clean, text_of
from typecase.lm.rate.lm_rater import narrowed
from typecase.lm.rate.prompts import PromptForm
from typecase.lm.rate.rater import I64, OK, PARTIAL, RATER_FAILED, REPAIRED, U8, Detail, Ratings, WindowRating, unrated
from typecase.lm.rate.teacher_terms import (
    HEAD_TAIL_CHARS,
    HEAD_TAIL_CHARS_ELSE,
    Attempt,
    Cost,
    Round,
    Settings,
    cut_head_tail,
)

_TOP_LOGPROBS = 20
_STATUS = {"ok": OK, "repaired": REPAIRED, "partial": PARTIAL, "rejected": RATER_FAILED}
_CODES: dict[FailureKind, str] = {"timeout": "timeout", "refused": "refusal", "too_long": "too_long", "budget": "budget"}
_UNTOLD: frozenset[FailureKind] = frozenset(("no_logprobs", "rejected"))


@dataclass(frozen=True, slots=True)
class _Shown:
    """A document as it is shown: its text as sent, and the parts of it, in characters."""

    text: str
    cuts: tuple[Cut, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reply, its text, and the chances at its places."""

    reply: Reply
    raw: str | None
    chances: dict[str, Chances] = field(default_factory=dict)
    codes: tuple[str, ...] = ()

    @property
    def values(self) -> int:
        """How much was read."""
        return len(self.reply.scores) + (self.reply.domain is not None)


class Teacher:
    """A rater that asks a language model; see the module. `log` is told of every attempt."""

    batch_docs = 256

    def __init__(
        self,
        lm: LM,
        form: PromptForm,
        settings: Settings = Settings(),  # noqa: B008  frozen
        *,
        name: str | None = None,
        version: str | None = None,
        log: Callable[[Attempt], None] | None = None,
    ) -> None:
        require(lm, "generate")
        if not -128 <= form.rubric.low < form.rubric.high <= 127:
            raise BadQuery(
                f"a teacher rates on scales within -128 and 127, the rubric has {form.rubric.low}..{form.rubric.high}"
            )
        self.lm, self.form, self.settings, self.log = lm, form, settings, log
        self.name, self._version = name or lm.name, version
        self._asked = asked_for(form.rubric, form.expects)
        self._rubric = narrowed(form.rubric, self._asked)
        self._rounds = [Round() for _ in range(settings.rounds)]
        self._tells = True

    @property
    def rubric(self) -> Rubric:
        """The form's, as far as it asks for it."""
        return self._rubric

    @property
    def version(self) -> str:
        """As given, else the form's."""
        return self._version or self.form.id

    @property
    def fingerprint(self) -> str:
        """Of the model, the form and the settings."""
        s = self.settings
        asked = [s.rounds, s.seed, list(s.temperatures), self.max_tokens, self._top(), s.rounding, s.least_mass, s.system_apart]
        view = [s.view, self._chars(), s.head_tail_tokens]
        return fingerprint_of("teacher", 1, self.name, self.version, self.lm.fingerprint, self.form.fingerprint, asked, view)

    @property
    def max_tokens(self) -> int:
        """The most tokens of an answer."""
        if self.settings.max_tokens is not None:
            return self.settings.max_tokens
        lines = len(self._asked)
        return {"form": 1024 + 24 * lines, "json": 32 + 24 * lines, "bare": 8 + 6 * lines}.get(self.form.template.reply, 16)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as the model counts them."""
        return self.lm.count_tokens(texts)

    def room(self) -> int | None:
        """Tokens that a document may have beside prompt and answer; None where the model's context is unknown."""
        limit = self.lm.can.context_tokens
        return None if limit is None else limit - self.count([self._prompt("")])[0] - self.max_tokens

    def report(self) -> tuple[Round, ...]:
        """What came back so far, round by round."""
        return tuple(self._rounds)

    def estimate_cost(self, texts: Iterable[str]) -> Cost:
        """Tokens and cost of rating `texts`, before anything is sent; the price is the model's own, if it has one."""
        prompts = (self._prompt(self._show(text).text) for text in texts if text.strip())
        own: Any = self.lm
        while not hasattr(own, "estimate") and hasattr(own, "lm"):
            own = own.lm
        if hasattr(own, "estimate"):
            one: Estimate = own.estimate(prompts, max_tokens=self.max_tokens)
        else:
            one = estimate(prompts, self.lm.count_tokens, max_tokens=self.max_tokens)
        n = self.settings.rounds
        most = (one.prompt_tokens * n, one.most_completion_tokens * n)
        return Cost(one, Estimate(one.rows, *most, one.least_cost, one.most_cost * n, one.currency))

    def rate(self, values: U8, offsets: I64) -> Ratings:
        """Ratings of the documents, in order."""
        data = [values[a:b].tobytes() for a, b in pairwise(offsets)]
        texts = [text_of(own) for own in data]
        shown = {doc: self._show(text) for doc, text in enumerate(texts) if text.strip()}
        best: dict[int, _Reading] = {}
        waiting = list(shown)
        for number in range(self.settings.rounds):
            waiting = self._round(number, waiting, shown, data, best)
        return self._written(shown, best, len(texts))

    def _round(
        self, number: int, docs: list[int], shown: dict[int, _Shown], data: list[bytes], best: dict[int, _Reading]
    ) -> list[int]:
        """Asks about `docs` and keeps the fuller reading of each; the documents to ask about again."""
        again = []
        for doc, result in zip(docs, self._ask([self._prompt(shown[doc].text) for doc in docs], number), strict=True):
            reading = self._read(result, shown[doc].text)
            self._book(number, data[doc], result, reading)
            if doc not in best or reading.values > best[doc].values:
                best[doc] = reading
            final = isinstance(result, Failure) and (result.kind in LASTING or result.kind == "budget")
            if reading.reply.missing and not final:
                again.append(doc)
        return again

    def _ask(self, prompts: list[str], number: int) -> list[Answer | Failure]:
        """One result a prompt. A row that fails for its log-probabilities is asked without them."""
        if not prompts:
            return []
        results = self._generate(prompts, number, self._top())
        untold = [row for row, own in enumerate(results) if isinstance(own, Failure) and own.kind in _UNTOLD]
        if untold and self._top():
            plain = self._generate([prompts[row] for row in untold], number, 0)
            if len(untold) == len(results) and any(isinstance(own, Answer) for own in plain):
                self._tells = False  # the server tells none, so it is not asked for them again
            for row, own in zip(untold, plain, strict=True):
                results[row] = own
        return results

    def _generate(self, prompts: list[str], number: int, top: int) -> list[Answer | Failure]:
        form = self.form.schema
        return list(
            self.lm.generate(
                prompts,
                max_tokens=self.max_tokens,
                seed=self.settings.seed + number,
                temperature=self._temperature(number),
                form=form if form is not None and form.kind in self.lm.can.forms else None,
                top_logprobs=top if self._tells else 0,
            )
        )

    def _temperature(self, number: int) -> float:
        return self.settings.temperatures[min(number, len(self.settings.temperatures) - 1)]

    def _top(self) -> int:
        told, wanted = self.lm.can.top_logprobs, self.settings.top_logprobs
        return min(told, _TOP_LOGPROBS) if wanted is None else wanted

    def _chars(self) -> int:
        own = self.settings.head_tail_chars
        return own if own is not None else HEAD_TAIL_CHARS.get(self.form.template.language, HEAD_TAIL_CHARS_ELSE)

    def _prompt(self, text: str) -> str:
        system = "" if self.settings.system_apart else self.form.system
        return f"{system}\n\n{self.form.prompt(text)}" if system else self.form.prompt(text)

    def _show(self, text: str) -> _Shown:
        """What is shown of a document."""
        cuts = [Cut(0, len(text), 0)]
        if self.settings.view == "head_tail":
            cuts = cut_head_tail(text, self._chars(), self.settings.head_tail_tokens, self.lm.count_tokens)
        parts = [clean(text[cut.start : cut.stop]) for cut in cuts]
        gap = f"\n[… {cuts[-1].start - cuts[0].stop:,} characters left out …]\n" if len(cuts) > 1 else ""
        return _Shown(gap.join(parts), tuple(cuts), tuple(byte_bounds(text, cuts)))

    def _read(self, result: Answer | Failure, text: str) -> _Reading:
        if isinstance(result, Failure):
            return _Reading(rejected((_CODES.get(result.kind, "api_error"),), self._asked), None)
        reply = read_reply(
            result.text,
            self.form.rubric,
            expects=self.form.expects,
            marker=self.form.marker(text),
            document=text,
            cut=result.finish == "length",
            rounding=self.settings.rounding,
        )
        chances = self._chances(result, reply)
        low = any(own.mass < self.settings.least_mass for own in chances.values())
        return _Reading(reply, result.text, chances, ("low_label_mass",) if low else ())

    def _chances(self, answer: Answer, reply: Reply) -> dict[str, Chances]:
        """Chances of the labels at the places of the reply, as far as the server told them."""
        tokens = tokens_of(answer) if answer.top else None
        rubric = self.form.rubric
        levels = [str(level) for level in range(rubric.low, rubric.high + 1)]
        letters = [domain.letter for domain in rubric.domains]
        found: dict[str, Chances] = {}
        for name, place in reply.places.items() if tokens else ():
            whole = name == "domain" or reply.scores[name] == reply.levels[name]
            own = chances_at(answer, tokens or (), place, letters if name == "domain" else levels) if whole else None
            if own is not None:
                found[name] = own
        return found

    def _book(self, number: int, document: bytes, result: Answer | Failure, reading: _Reading) -> None:
        codes = (*reading.reply.codes, *reading.codes)
        own = self._rounds[number]
        own.asked += 1
        own.statuses[reading.reply.status] += 1
        own.codes.update(codes)
        used = (result.prompt_tokens, result.completion_tokens) if isinstance(result, Answer) else (0, 0)
        own.prompt_tokens += used[0]
        own.completion_tokens += used[1]
        if self.log is not None:
            key = blake2b(document, digest_size=16).hexdigest()
            asked = (number, self.settings.seed + number, self._temperature(number))
            self.log(Attempt(key, *asked, reading.reply.status, codes, reading.raw, *used))

    def _written(self, shown: dict[int, _Shown], best: dict[int, _Reading], num_docs: int) -> Ratings:
        ratings, shape = unrated(self.rubric, num_docs), (num_docs, len(self.rubric.criteria))
        levels, surety = np.zeros(shape, np.int8), np.full(shape, np.nan, np.float32)
        mass = np.full(num_docs, np.nan, np.float32)
        codes: list[tuple[str, ...]] = [()] * num_docs
        raw: list[str | None] = [None] * num_docs
        windows: list[tuple[WindowRating, ...]] = [()] * num_docs
        for doc, reading in best.items():
            reply = reading.reply
            ratings.status[doc] = _STATUS[reply.status]
            codes[doc], raw[doc] = (*reply.codes, *reading.codes), reading.raw
            if reading.chances:
                mass[doc] = min(own.mass for own in reading.chances.values())
            for column, name in enumerate(self.rubric.columns):
                if name in reply.scores:
                    ratings.scores[doc, column] = self._score(reading, name)
                    levels[doc, column] = reply.levels[name]
                    if name in reading.chances:
                        surety[doc, column] = reading.chances[name].surety[reply.levels[name] - self.rubric.low]
            if np.isnan(ratings.scores[doc]).any() and reading.values:
                ratings.status[doc] = PARTIAL  # also where the domain alone was asked for
            self._write_domain(ratings, doc, reading)
            if reading.values:
                ratings.rated_bytes[doc] = sum(stop - start for start, stop in shown[doc].spans)
                windows[doc] = self._spans(shown[doc], ratings, doc)
            ratings.confidence[doc] = _confidence(self.rubric, surety[doc])
        detail = Detail(levels, surety, mass, tuple(codes), tuple(raw), tuple(windows))
        return Ratings(
            **{name: getattr(ratings, name) for name in ratings.__dataclass_fields__ if name != "detail"}, detail=detail
        )

    def _score(self, reading: _Reading, name: str) -> float:
        """The expected level where chances are told, else the score as it was written."""
        own = reading.chances.get(name)
        scale = np.arange(self.form.rubric.low, self.form.rubric.high + 1)
        return reading.reply.scores[name] if own is None else float(own.middle @ scale)

    def _write_domain(self, ratings: Ratings, doc: int, reading: _Reading) -> None:
        if reading.reply.domain is None:
            return
        row = self.rubric.labels.index(reading.reply.domain)
        own = reading.chances.get("domain")
        ratings.domain[doc] = row
        ratings.domain_chances[doc] = np.eye(len(self.rubric.domains))[row] if own is None else own.middle
        ratings.domain_confidence[doc] = np.nan if own is None else own.surety[row]

    def _spans(self, shown: _Shown, ratings: Ratings, doc: int) -> tuple[WindowRating, ...]:
        """The parts of a document that were seen together, if it was not seen whole; each with what was said of them all."""
        if len(shown.cuts) < 2:
            return ()
        row = ratings.row(doc)
        tokens = self.lm.count_tokens(
            [shown.text[: shown.cuts[0].stop], shown.text[-(shown.cuts[1].stop - shown.cuts[1].start) :]]
        )
        return tuple(
            WindowRating(start, stop, count, row.scores, row.domain)
            for (start, stop), count in zip(shown.spans, tokens, strict=True)
        )


def _confidence(rubric: Rubric, surety: Any) -> float:
    """Surety of the summary criterion, or the mean of all; NaN where none is told."""
    if rubric.summary is not None:
        return float(surety[rubric.columns.index(rubric.summary)])
    known = surety[~np.isnan(surety)]
    return float(known.mean()) if len(known) else float("nan")


def open_teacher(table: Mapping[str, Any], where: Path) -> Teacher:
    """The teacher that a `rater.toml` of kind teacher describes; see teacher_table.py for its keys and errors."""
    from typecase.lm.rate.teacher_table import teacher_of

    return teacher_of(table, where)
