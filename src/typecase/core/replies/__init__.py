"""Replies: what a rater wrote, as scores and a domain. Total: every text gives a `Reply`, and every gap in it has a reason.

    read_reply("1. Accuracy: 4/5\\n2. Coherence: N/A\\nDomain: [E] Technology", rubric)

    text ─► hidden parts out ─► lines, cells, JSON members ─► claims (criterion, value | code) ─► settled one by one ─► Reply

What is recoverable, and so must be read exactly; whatever is not is left out with a code, for a wrong score costs more
than a missing one:

  a score     stands behind its criterion's number in the rubric, or a name of it, or both if they agree: in a line, a table
              row, a member of JSON, or a section of its own; as digits of any script, whole or decimal, on the scale, with
              the scale's own top as denominator or with none. A comment may follow if it holds no other number on the scale.
  twice       the same criterion may be scored again with the same value, never with another.
  revised     a sentence behind the form that gives a criterion another score takes that criterion out.
  a domain    is the letter or a name of one domain, or both if they agree, behind a word such as `Domain:`; a lone line
              `[E] Technology` counts where no other line names a domain.
  hidden      thoughts in tags, lines quoted with >, a line that is one quotation: none of it is an answer. With a `marker`,
              nothing before it is; where it is missing, no line that stands in the `document` is.
  cut off     the last line of an answer that was cut off may lack its end and is not read.
  bare        (`expects="bare"`) a line a field, domain first, is read by position only if there are exactly as many lines
              as fields and each looks like its field; two identical halves count as one.

A fraction is kept in `scores`; its level is the nearest, and a half goes up (`rounding="away_from_3"` is DataMan's rule,
for comparison). No text raises: only a rubric that cannot be asked in that way does (BadQuery).

Price: time grows with the length of the text and nothing else: about 0.2 µs a character of prose, 20 µs a line with a score.
"""

from __future__ import annotations

from typecase.core.replies.reader import read_reply
from typecase.core.replies.reply import CODES, EXPECTS, Expects, Reply, Rounding, level_of

__all__ = ["CODES", "EXPECTS", "Expects", "Reply", "Rounding", "level_of", "read_reply"]
