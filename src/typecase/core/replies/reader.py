"""Reader: claims settled into a reply, and the bare form read by position."""

from __future__ import annotations

import re

from typecase.core.rating import Rubric
from typecase.core.replies.bare import read_bare, read_one_domain, read_one_score
from typecase.core.replies.claims import Claim, Claims, read_claims
from typecase.core.replies.lines import fold, hide, hide_quotes, hide_thoughts
from typecase.core.replies.members import read_members
from typecase.core.replies.names import names_of
from typecase.core.replies.reply import EXPECTS, REPAIRS, Expects, Reply, ReplyStatus, Rounding, level_of, rejected
from typecase.errors import BadQuery

_REFUSAL = re.compile(
    r"i'?m sorry|i am sorry|i apologi[sz]e|i cannot|i can ?not|i can'?t|i'?m (?:unable|not able)|i am (?:unable|not able)"
    r"|i won'?t|i will not|as an ai|抱歉|对不起|我无法|我不能|无法提供|不能提供"
)


def read_reply(
    text: str,
    rubric: Rubric,
    *,
    expects: Expects = "form",
    marker: str | None = None,
    document: str | None = None,
    cut: bool = False,
    rounding: Rounding = "nearest",
) -> Reply:
    """What `text` says of a document, by the rules of the package. Never raises for a text.

    expects   what was asked for, see EXPECTS
    marker    a line that the answer was told to open its form with; nothing before its last mention is read
    document  the text that was rated: where no marker sets the answer apart, lines that stand in it are not the answer's
    cut       whether the text was cut off, as by a limit of tokens

    Raises BadQuery if `expects` is "score" and the rubric has several criteria and no summary, or "domain" and no domains.
    """
    asked = asked_for(rubric, expects)
    if not text.strip():
        return rejected(("truncated_reply", "empty_reply") if cut else ("empty_reply",), asked)
    visible, missing_marker = _behind(hide_thoughts(text.replace("\r", "\n")), marker)
    names = names_of(rubric)
    claims = Claims()
    if expects == "bare":
        bare = read_bare(visible, names, rubric, cut=cut)
        if bare is not None:
            claims, notes = bare
            return _settle(claims, rubric, asked, rounding, notes)
    if expects == "score" and read_one_score(visible, rubric, asked[0], claims):
        return _settle(claims, rubric, asked, rounding, ())
    if expects == "domain" and read_one_domain(visible, names, rubric, claims):
        return _settle(claims, rubric, asked, rounding, ())
    if cut:
        visible = hide(visible, visible.rfind("\n") + 1, len(visible))
    quoting = False
    if document is not None and (marker is None or missing_marker):
        visible, quoting = hide_quotes(visible, document)
    notes = (("marker_missing",) if missing_marker else ()) + (("truncated_reply",) if cut else ())
    notes += ("quoted_document",) if quoting else ()
    read_claims(read_members(visible, names, rubric, claims), names, rubric, claims)
    if not claims.scores and not claims.domains and _REFUSAL.search(fold(text[:400])[0]):
        notes = (*notes, "refusal")
    return _settle(claims, rubric, asked, rounding, notes)


def asked_for(rubric: Rubric, expects: Expects) -> tuple[str, ...]:
    """Criterion ids and "domain", as far as `expects` asks for them."""
    if expects not in EXPECTS:
        raise BadQuery(f"a reply expects one of {', '.join(EXPECTS)}, got {expects!r}")
    if expects == "score":
        if rubric.summary is None and len(rubric.criteria) > 1:
            raise BadQuery(f"rubric '{rubric.id}' has {len(rubric.criteria)} criteria and no summary: which is the one score?")
        return (rubric.summary or rubric.columns[0],)
    if expects == "domain":
        if not rubric.domains:
            raise BadQuery(f"rubric '{rubric.id}' has no domains to ask for")
        return ("domain",)
    return (*rubric.columns, *(("domain",) if rubric.domains else ()))


def _behind(text: str, marker: str | None) -> tuple[str, bool]:
    """The text with all before the end of the last marker hidden, and whether the marker is missing."""
    at = text.rfind(marker) if marker else -1
    if not marker or at < 0:
        return text, bool(marker)
    return hide(text, 0, at + len(marker)), False


def _settle(claims: Claims, rubric: Rubric, asked: tuple[str, ...], rounding: Rounding, notes: tuple[str, ...]) -> Reply:
    """One outcome a criterion, out of all that was claimed."""
    scores: dict[str, float] = {}
    missing: dict[str, str] = {}
    places = {"domain": claims.places["domain"]} if "domain" in claims.places else {}
    codes, columns = list(notes), rubric.columns
    wanted = [name for name in asked if name != "domain"]
    real = [claim for claim in claims.scores if not claim.objection]
    named = {columns[claim.row] for claim in real} & set(wanted)
    codes += _crowd(real, wanted, columns)
    for name in wanted:
        outcome, place = _outcome(claims.scores, columns.index(name))
        if isinstance(outcome, float):
            scores[name] = outcome
            if place:
                places[name] = place
            codes += ["fractional_score"] if outcome != int(outcome) else []
        else:
            missing[name] = outcome or ("too_few_scores" if named else "refusal" if "refusal" in codes else "no_scores")
            codes.append(missing[name])
    used = [claim for claim in real if columns[claim.row] in scores]
    codes += ["markup_stripped"] * any(claim.marked for claim in used) + ["non_ascii_digits"] * any(c.wide for c in used)
    domain = None
    if "domain" in asked:
        domain, code = _settle_domain(claims)
        if code:
            missing["domain"] = "refusal" if code == "no_domain" and "refusal" in codes else code
            codes.append(missing["domain"])
            places.pop("domain", None)
    unique = tuple(dict.fromkeys(codes))
    levels = {name: level_of(score, rubric, rounding) for name, score in scores.items()}
    return Reply(scores, levels, domain, _status(asked, missing, unique), unique, missing, places)


def _status(asked: tuple[str, ...], missing: dict[str, str], codes: tuple[str, ...]) -> ReplyStatus:
    if not missing:
        return "repaired" if set(codes) & REPAIRS else "ok"
    return "rejected" if len(missing) == len(asked) else "partial"


def _crowd(claims: list[Claim], wanted: list[str], columns: tuple[str, ...]) -> list[str]:
    """The code for criteria that are scored more than once."""
    rows = [claim.row for claim in claims if columns[claim.row] in wanted]
    if len(rows) == len(set(rows)):
        return []
    half = len(rows) // 2
    values = [claim.outcome for claim in claims if columns[claim.row] in wanted]
    twice = len(rows) == 2 * len(wanted) and rows[:half] == rows[half:] and values[:half] == values[half:]
    return ["duplicate_half" if twice else "too_many_scores"]


def _outcome(claims: list[Claim], row: int) -> tuple[float | str | None, tuple[int, int] | None]:
    """The score of a criterion and its place; a code if it has none; None if it was never claimed."""
    own = [claim for claim in claims if claim.row == row and not claim.objection]
    if any(claim.also is not None and row in (claim.row, claim.also) for claim in claims):
        return "criterion_mismatch", None
    if not own:
        return None, None
    outcomes = {claim.outcome for claim in own}
    first = next(at for at, claim in enumerate(claims) if claim is own[0])
    outcomes |= {claim.outcome for claim in claims[first:] if claim.objection and claim.row == row}
    if len(outcomes) > 1:
        return "conflicting_scores", None
    return own[0].outcome, own[-1].place


def _settle_domain(claims: Claims) -> tuple[str | None, str | None]:
    """The domain, or the code of its absence."""
    said = list(dict.fromkeys(claims.domains or claims.lone))
    if not said:
        return None, "no_domain"
    if len(said) > 1:
        return None, "multiple_domains"
    known = said[0] not in ("no_domain", "multiple_domains", "unknown_domain")
    return (said[0], None) if known else (None, said[0])
