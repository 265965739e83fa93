"""The card of a head: what it was made from, what was measured and how, and where it must not be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typecase.lm.embedding import Encoder
from typecase.lm.head.model import EncodedHead, GramHead
from typecase.lm.starter.card import confidence, damage_table, domain_table, score_table, summary
from typecase.lm.starter.evaluate import FOLDS


def head_card(
    figures: Mapping[str, Any], head: GramHead | EncodedHead, *, encoder: Encoder | None, size: int, seed: int
) -> str:
    """The card in Markdown; `figures` may be empty. It holds no time, host or path: equal inputs give an equal card."""
    parts = [_head(head, encoder, size, seed)]
    if figures:
        parts += [
            _made(figures, encoder),
            score_table(figures),
            summary(figures, head.rubric),
            domain_table(figures, "this head"),
        ]
        parts += [confidence(figures), _damage(figures), _limits()]
    else:
        parts.append("No figure was measured: it was fitted without evaluation. Do not trust it before it was.")
    return "\n\n".join(parts) + "\n"


def _head(head: GramHead | EncodedHead, encoder: Encoder | None, size: int, seed: int) -> str:
    seen = (
        "hashed n-grams alone; no network."
        if encoder is None
        else f"the starter rater's measures and n-grams, and the encoder `{encoder.name}` with the fingerprint"
        f" `{encoder.fingerprint}`."
    )
    rubric = head.rubric
    return f"""# Head rater

Rates documents on the {len(rubric.criteria)} criteria and {len(rubric.domains)} domains of the rubric `{rubric.id}`, \
version {rubric.version}. It sees {seen}

fingerprint `{head.fingerprint}`, seed {seed}, {size / 1e6:.1f} MB."""


def _made(figures: Mapping[str, Any], encoder: Encoder | None) -> str:
    levels = "n-grams and calibration" if encoder is None else "starter rater, kernels, second stage and calibration"
    return f"""## How it was measured

{figures["documents"]} documents of {figures["sources"]} sources, {figures["variants"]} of them damaged variants. \
{FOLDS}-fold cross-validation over sources; a variant lies on the side of its original. Every document was rated by a head \
that was taught no document of its source, at any level: {levels} were learned \
anew without the fold. The settings were chosen by hand on these documents, so expect a little less on new sources."""


def _damage(figures: Mapping[str, Any]) -> str:
    return damage_table(figures) if figures["damage"] else "## Damage\n\nNone of the documents is a damaged variant."


def _limits() -> str:
    return """## Limits

- It agrees with the readings that it was taught; whether it agrees with people was not measured here, nor whether selection \
by it helps a model.
- Beyond the kinds of text that it was taught it was not measured.
- A text of more than eight windows of 3 kB is read in part (`rated_bytes`)."""
