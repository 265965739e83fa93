"""open_refiner: every name, folder and table; what cannot be meant says so. And the forms that refiners are asked with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lm.tiny import make_tiny, one_thread
from typecase.core.program.language import Program, show
from typecase.core.program.lenient import read_lenient
from typecase.core.program.parse import parse
from typecase.errors import BadRecipe, NotFound
from typecase.lm.refine.form import builtin_refine_forms, load_refine_form, parse_refine_form
from typecase.lm.refine.refiners import RulesRefiner, open_refiner, open_table

assert one_thread
PAGE = "Home | News | About | Contact\n\nThe tray of sorts has two cases, and each case has its lid.\n\nShare this page\n"


def test_rules_by_name() -> None:
    refiner = open_refiner("rules")
    (found,) = refiner.propose([PAGE])
    assert found.program.statements and not found.drops
    assert open_refiner("rules").fingerprint == refiner.fingerprint


def test_a_rule_that_drops_is_a_decision(tmp_path: Path) -> None:
    (tmp_path / "refiner.toml").write_text('kind = "rules"\nname = "mine"\nrules = ["gopher_quality"]\n')
    refiner = open_refiner(tmp_path)
    assert isinstance(refiner, RulesRefiner) and refiner.name == "mine"
    assert refiner.fingerprint != open_refiner("rules").fingerprint
    (found,) = refiner.propose(["a few words"])
    assert found.drops and found.decision.origin.name.startswith("gopher") and found.program.statements == ()  # type: ignore[union-attr]


def test_the_tagger_by_name() -> None:
    pytest.importorskip("typecase.lm.tagger.tagger")
    try:
        refiner = open_refiner("tagger")
    except (NotFound, FileNotFoundError):
        pytest.skip("no shipped tagger")
    assert len(refiner.propose([PAGE])) == 1


def test_a_local_model_in_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    make_tiny(tmp_path / "weights")
    (tmp_path / "form.toml").write_text('id = "f"\nversion = 1\ndocument = "{text}"\nchunk = "{lines}\\n"')
    (tmp_path / "refiner.toml").write_text(
        'kind = "lm"\nname = "small"\nform = "form.toml"\nmax_tokens = 60\nbudget = 80\nstages = ["document", "chunk"]\n'
        'operations = ["keep_all", "remove_lines"]\n[model]\npath = "weights"\ndevice = "cpu"\n'
    )
    refiner = open_refiner(tmp_path)
    (found,) = refiner.propose([PAGE])
    assert refiner.name == "small" and found.decision is not None and refiner.parameters > 10_000  # type: ignore[attr-defined]
    assert all(isinstance(parse(answer.raw), Program) for answer in found.answers)


def test_prox_checkpoints_in_a_table(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    make_tiny(tmp_path / "web-chunk")
    table = {"kind": "lm", "mode": "prox", "max_tokens": 30, "budget": 100, "model": {"path": "web-chunk", "device": "cpu"}}
    refiner = open_table(table, tmp_path)
    (found,) = refiner.propose(["Home\nA line."])
    assert refiner.form.id == "prox" and len(found.answers) == 1 and found.decision is None  # type: ignore[attr-defined]


def test_a_teacher_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "teacher.toml"
    file.write_text(
        'kind = "teacher"\nrounds = 3\ntemperatures = [0.0, 0.5]\n[model]\nurl = "http://127.0.0.1:9/v1"\nmodel = "big"\n'
        'cache = "answers.db"\n'
    )
    refiner = open_refiner(file)
    assert refiner.name == "big" and refiner.settings.temperatures == (0.0, 0.5)  # type: ignore[attr-defined]
    refiner.close()  # type: ignore[attr-defined]
    assert (tmp_path / "answers.db").is_file()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "magic"}, "kind is one of"),
        ({"kind": "lm"}, r"\[model\]"),
        ({"kind": "lm", "mode": "prox"}, r"\[document_model\]"),
        ({"kind": "lm", "model": {"path": "x"}, "stages": ["page"]}, "stages"),
        ({"kind": "lm", "bugdet": 3, "model": {"path": "x"}}, "bugdet"),
        ({"kind": "lm", "budget": "3", "model": {"path": "x"}}, "'budget' must be int"),
        ({"kind": "lm", "budget": True, "model": {"path": "x"}}, "'budget' must be int"),
        ({"kind": "teacher"}, r"\[model\]"),
        ({"kind": "rules", "rules": ["no_such"]}, "no_such"),
        ({"kind": "lm", "policy": "x", "model": {"path": "x"}}, "policy"),
    ],
)
def test_tables_that_cannot_be_meant(table: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match=message):
        open_table(table, tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no refiner"):
        open_refiner(tmp_path / "absent")
    with pytest.raises(NotFound, match="no refiner"):
        open_refiner(tmp_path)
    broken = tmp_path / "refiner.toml"
    broken.write_text("kind = ")
    with pytest.raises(BadRecipe, match="not TOML"):
        open_refiner(broken)


class TestForms:
    def test_the_forms_of_the_package(self) -> None:
        assert builtin_refine_forms() == ("prox", "student", "teacher")
        assert len({load_refine_form(name).fingerprint for name in builtin_refine_forms()}) == 3

    def test_every_shot_of_the_teacher_is_a_strict_program_that_runs_on_its_page(self) -> None:
        """A shot that named a wrong line or string would teach just that."""
        form = load_refine_form("teacher")
        assert [noise.id for noise in form.noise] == ["head", "links", "tail"]
        for noise in form.noise:
            assert 1 <= len(noise.shots) <= 5 and any("keep_all" in shot.answer for shot in noise.shots)
            for shot in noise.shots:
                lines = [line.partition("]") for line in shot.lines.split("\n")]
                first = int(lines[0][0][1:])
                assert [int(number[1:]) for number, _, _ in lines] == list(range(first, first + len(lines)))
                program = parse(shot.answer)
                assert isinstance(program, Program) and program.statements and not program.faults
                assert read_lenient(shot.answer, []).program == program
                for s in program.statements:
                    if s.name != "keep_all":
                        assert first <= s.line_start <= s.line_end < first + len(lines), show(program)
                    if s.name == "remove_str":
                        assert lines[s.line_start - first][2].count(s.text) == 1

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('id = "x"\nversion = 1\ndocument = "{text}"\nchunk = "no"', "lines"),
            ('id = "x"\nversion = 1\ndocument = "no"\nchunk = "{lines}"', "text"),
            ('id = "x"\nversion = "1"\ndocument = "{text}"\nchunk = "{lines}"', "version"),
            ('id = "x"\nversion = 1\ndocument = "{text}"\nchunk = "{lines}"\nmore = 1', "more"),
            ('id = "x"\nversion = 1\ndocument = "{text}"\nchunk = "{lines}"\n[[noise]]\nid = "n"', "task"),
            ("id = ", "not TOML"),
        ],
    )
    def test_forms_that_cannot_be_meant(self, text: str, message: str) -> None:
        with pytest.raises(BadRecipe, match=message):
            parse_refine_form(text, where="here")

    def test_more_than_five_shots_are_refused(self) -> None:
        shot = '{ lines = "[000]a", answer = "keep_all()" },'
        with pytest.raises(BadRecipe, match="5 are the most"):
            parse_refine_form(
                'id = "x"\nversion = 1\ndocument = "{text}"\nchunk = "{lines}"\nshot = "{lines}{answer}"\n'
                f'[[noise]]\nid = "n"\ntask = "t"\nshots = [{shot * 6}]',
                where="here",
            )
