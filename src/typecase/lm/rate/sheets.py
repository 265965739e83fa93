"""Sheets: a prompt form for a model that is read by its labels alone (prompts.py has the words, slots.py the reading).

    student       instruction, text, blank form            reply "E\\n4\\n5\\n…": a letter, a digit a criterion
    score_only    the same for the summary criterion       reply "4"
    domain_only   the same for the domain                  reply "E"
    rubric_first  instruction, rubric, text                reply "Domain: [E]\\nAccuracy: 4\\n…"; the rubric is read once
    mine.toml     a template of your own

The student's reply is laid out as DataMan's checkpoints write it; the words around are our own. A checkpoint that was trained
with other words needs them: copy lm/rate/forms/student.toml, put them in, and name the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from typecase.core.rating import Rubric
from typecase.core.replies.reader import asked_for
from typecase.errors import BadQuery, BadRecipe
from typecase.lm.rate.prompts import PromptForm, builtin_templates, prompt_form, slots_of
from typecase.lm.slots import Slot

DOMAIN = "domain"
_TEMPLATE_OF = {"student": "student", "score_only": "score", "domain_only": "domain", "rubric_first": "rubric_first"}
SHEETS = tuple(_TEMPLATE_OF)


@dataclass(frozen=True)
class Sheet:
    """A form with its gaps. `lead` is the turn before the user's, for a model that has no such turn."""

    form: PromptForm
    lead: str = ""

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The gaps, the domain's first."""
        return tuple(slots_of(self.form.rubric, self.form))

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """What each gap asks for: DOMAIN or the id of a criterion."""
        asked = asked_for(self.form.rubric, self.form.expects)
        return (*(name for name in asked if name == DOMAIN), *(name for name in asked if name != DOMAIN))

    def prompt(self, text: str) -> str:
        """What stands before the first gap. An answer in named lines begins on a line of its own."""
        return self.lead + self.form.prompt(text, marked=False) + ("\n" if self.slots[0].before else "")


def sheet_of(rubric: Rubric, name: str | Path, *, chat: bool = True) -> Sheet:
    """The sheet called `name`: one of SHEETS, a built-in template, or the path of a template of your own.

    Without `chat` the template's system turn stands before the prompt. Raises BadRecipe for a form that does not fit.
    """
    template = _TEMPLATE_OF.get(str(name), name)
    if not Path(template).is_file() and template not in builtin_templates():
        known = dict.fromkeys((*SHEETS, *builtin_templates()))
        raise BadRecipe(f"no form '{name}'; there are {', '.join(known)}, and a template of your own by its path")
    try:
        form = prompt_form(rubric, template)
        sheet = Sheet(form, "" if chat or not form.system else f"{form.system}\n\n")
        if len(sheet.slots) != len(sheet.asks):
            raise BadQuery(f"{len(sheet.slots)} gaps for {len(sheet.asks)} questions")
    except BadQuery as error:
        raise BadRecipe(f"the form '{name}' does not fit the rubric '{rubric.id}': {error}") from None
    return sheet
