"""Session: a mix under discussion, one line at a time. Nothing is read or written here: a page can use it as a terminal does.

    web 0.5          web has half of the mix (in the unit), the others keep their ratios
    books x2         twice the tokens of books, the others give way
    cap web 4        at most four epochs of web; `cap 4` for all, `cap web off`
    budget 10M       tokens
    unit epochs      what numbers mean from now on
    undo  redo  reset  show  save NAME  help  quit

Every line gives a Reply: the plan, or what was wrong with the line; a wrong line changes nothing. With a law, each plan says
what it predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, get_args

from typecase.core.mixing.shares import (
    REPEATS,
    REST,
    Group,
    MixPlan,
    Unit,
    label_of,
    parse_number,
    plan_mix,
    token_weights,
    weights_in,
)
from typecase.core.selection.policy import Budget
from typecase.core.selection.quota import Label
from typecase.errors import BadQuery, FixInput, TypecaseError

Act = Literal["shown", "changed", "refused", "save", "help", "quit"]

HELP = (
    "NAME NUMBER   its share in the unit (0.5, 50%, 1/2), or its epochs; the others keep their ratios",
    "NAME xFACTOR  that many times its tokens; the others give way",
    "cap [NAME] EPOCHS|off    budget TOKENS    unit tokens|documents|epochs",
    "undo  redo  reset  show  save NAME  help  quit",
)


@dataclass(frozen=True, slots=True)
class State:
    """Amounts are relative tokens by group, exact; `caps` in epochs, spilled over."""

    amounts: tuple[Fraction, ...]
    unit: Unit
    budget: int
    caps: tuple[tuple[Label, Fraction], ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a line did; `plan` of the state after it, `predicted` {target: loss} with a law, `text` a word or a file's name."""

    act: Act
    plan: MixPlan
    predicted: Mapping[str, float] = field(default_factory=dict)
    text: str = ""


class Session:
    """`predict` gives {target: loss} of the shares of the groups in their order (a law), when there is one."""

    def __init__(
        self,
        groups: Sequence[Group],
        *,
        budget: int,
        unit: Unit = "tokens",
        weights: Sequence[Fraction] | None = None,
        cap: Fraction | None = REPEATS,
        predict: Callable[[Sequence[float]], Mapping[str, float]] | None = None,
    ) -> None:
        self.groups = tuple(groups)
        amounts = [Fraction(g.tokens) for g in groups] if weights is None else token_weights(weights, groups, unit)
        caps = () if cap is None else (((), cap),)
        self._states = [State(tuple(amounts), unit, budget, caps)]
        self._at = 0
        self._predict = predict
        self._plan(self.state)

    @property
    def state(self) -> State:
        return self._states[self._at]

    def show(self) -> Reply:
        """The plan as it stands."""
        return self._reply("shown")

    def say(self, line: str) -> Reply:
        """Does what the line says."""
        words = line.split()
        if not words:
            return self.show()
        try:
            return self._do(words)
        except TypecaseError as error:
            return self._reply("refused", str(error))

    def _do(self, words: Sequence[str]) -> Reply:
        verb, rest = words[0], words[1:]
        if verb in ("undo", "redo", "reset", "show", "help", "quit", "exit") and not rest:
            return self._move(verb)
        if verb == "save" and len(rest) == 1:
            return self._reply("save", rest[0])
        if verb == "budget" and rest:
            asked = Budget.parse(" ".join(rest))
            if asked.unit != "tokens":
                raise BadQuery(f"a mix has a budget in tokens, got {' '.join(rest)!r}")
            return self._change(replace(self.state, budget=asked.amount))
        if verb == "unit" and len(rest) == 1:
            unit = next((one for one in get_args(Unit) if one == rest[0]), None)
            if unit is None:
                raise BadQuery(f"a unit is tokens, documents or epochs, got {rest[0]!r}")
            return self._change(replace(self.state, unit=unit))
        if verb == "cap" and 1 <= len(rest) <= 2:
            return self._cap(rest[0] if len(rest) == 2 else REST, rest[-1])
        if len(words) == 2:
            return self._weigh(verb, rest[0])
        raise BadQuery(f"{' '.join(words)!r} is no command; say help")

    def _move(self, verb: str) -> Reply:
        if verb in ("undo", "redo"):
            to = self._at + (1 if verb == "redo" else -1)
            if not 0 <= to < len(self._states):
                raise BadQuery(f"there is nothing to {verb}")
            self._at = to
            return self._reply("changed")
        if verb == "reset":
            return self._change(self._states[0])
        return self._reply({"show": "shown", "help": "help"}.get(verb, "quit"))  # type: ignore[arg-type]

    def _cap(self, name: str, number: str) -> Reply:
        label = label_of(name)
        caps = dict(self.state.caps)
        caps.pop(label, None)
        if number != "off":
            caps[label] = parse_number(number)
        return self._change(replace(self.state, caps=tuple(sorted(caps.items()))))

    def _weigh(self, name: str, number: str) -> Reply:
        """Sets the part of the groups that `name` begins; inside it and outside it ratios are kept."""
        label = label_of(name)
        inside = [bool(label) and group.label[: len(label)] == label for group in self.groups]
        if not any(inside):
            raise FixInput(
                f"no group {name!r}; there are {', '.join(group.name for group in self.groups[:12])}, and the commands"
            )
        if number.startswith("x"):
            factor = parse_number(number[1:])
            grown = zip(self.state.amounts, inside, strict=True)
            return self._change(replace(self.state, amounts=tuple(a * factor if one else a for a, one in grown)))
        part = self._token_part(parse_number(number), inside)
        return self._change(replace(self.state, amounts=self._with_part(part, inside)))

    def _token_part(self, wanted: Fraction, inside: Sequence[bool]) -> Fraction:
        """The share of tokens at which the groups inside have `wanted` in the unit."""
        unit, groups = self.state.unit, self.groups
        if unit == "epochs":
            supply = sum(group.tokens for group, one in zip(groups, inside, strict=True) if one)
            part = wanted * supply / self.state.budget
            if part > 1:
                raise FixInput(f"{float(wanted):g} epochs are {int(wanted * supply):,} tokens, above the budget")
            return part
        if wanted > 1:
            raise FixInput(f"a share of {unit} is 0 to 1, got {float(wanted):g}; say x{float(wanted):g} for a factor")
        if unit == "tokens":
            return wanted
        halves = [self._with_part(Fraction(side), inside) for side in (1, 0)]
        if not sum(halves[1]):
            return Fraction(1)
        one, other = (sum(weights_in(half, groups, "documents")) for half in halves)  # documents a token, inside and outside
        return wanted * other / (wanted * other + (1 - wanted) * one)

    def _with_part(self, part: Fraction, inside: Sequence[bool]) -> tuple[Fraction, ...]:
        """Amounts with sum 1 of which those inside have `part`; a side that has nothing shares by its tokens."""
        found = list(self.state.amounts)
        for side, share in ((True, part), (False, 1 - part)):
            members = [k for k, one in enumerate(inside) if one is side]
            mass = [self.state.amounts[k] for k in members]
            if not sum(mass):
                mass = [Fraction(self.groups[k].tokens) for k in members]
            whole = sum(mass)
            for k, amount in zip(members, mass, strict=True):
                found[k] = amount / whole * share if whole else Fraction(0)
        return tuple(found)

    def _change(self, state: State) -> Reply:
        self._plan(state)  # refuses a state that has no plan
        self._states = [*self._states[: self._at + 1], state]
        self._at += 1
        return self._reply("changed")

    def _plan(self, state: State) -> MixPlan:
        weights = {group.label: amount for group, amount in zip(self.groups, state.amounts, strict=True)}
        plan = plan_mix(self.groups, weights, unit="tokens", budget=state.budget, caps=dict(state.caps), over="spill")
        return replace(plan, unit=state.unit)

    def _reply(self, act: Act, text: str = "") -> Reply:
        plan = self._plan(self.state)
        total = plan.taken or 1
        predicted = self._predict([row.taken / total for row in plan.rows]) if self._predict else {}
        return Reply(act, plan, predicted, text)
