"""The line tagger: what it proposes, in any batch; its file; its training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from typecase.core.learn.calibration import Isotonic
from typecase.core.learn.trees import Growth
from typecase.core.program.guards import FREE
from typecase.core.program.run import run
from typecase.core.twins.marks import Twin
from typecase.errors import BadRecipe, CorruptStore, NotFound
from typecase.lm.tagger.card import card_text, figures_of, removed_lines
from typecase.lm.tagger.mix import mixed_page
from typecase.lm.tagger.model import Tagger
from typecase.lm.tagger.noise import inject, read_noise
from typecase.lm.tagger.tagger import from_bytes, load_tagger, to_bytes, with_fingerprint
from typecase.lm.tagger.train import Settings, fit_tagger, tagged

SMALL = Growth(trees=12, depth=4, rate=0.3, rows=0.6, measures=0.4, least_weight=1, damping=1)
SETTINGS = Settings(mixed=30, folds=2, first=SMALL, second=SMALL, epochs=3, over=0.05, touched=0.5)

PROSE = "It was a long day at the harbour, and nobody had thought of what would happen once the ships came in."
PAGE = f"""Home
  • Download
  • Documentation
  • Contact us
« Previous page | Next page »

The harbour

{PROSE}

{PROSE[::-1]} And {PROSE}

  • a list of things
  • that belong to the text

© 2019 Somebody. All rights reserved.
Terms of use | Privacy policy
"""


def pages(generators: int = 6) -> list[Twin]:
    rng = np.random.default_rng(5)
    kinds = read_noise()
    made = []
    for number in range(8 * generators):
        body = [" ".join(rng.permutation(PROSE.split())) for _ in range(6)]
        lines, noise = inject(body, kinds, rng, blocks=3)
        gone = tuple(i for i, (line, flag) in enumerate(zip(lines, noise)) if flag and line.strip())
        made.append(Twin("\n".join(lines), gone, f"f{number % generators}", f"g{number % generators}", "s", str(number), "MIT"))
    return made


@pytest.fixture(scope="module")
def fitted() -> Tagger:
    return with_fingerprint(fit_tagger(pages(), read_noise(), SETTINGS, seed=3))


def test_the_shipped_tagger_cleans_a_page_and_leaves_its_text():
    tagger = load_tagger()
    [proposal] = tagger.propose([PAGE])
    text = run(proposal.program, PAGE, FREE).text
    assert (
        text.startswith("The harbour\n")
        and text.count(PROSE) == 2
        and "  • a list of things\n  • that belong to the text" in text
    )
    assert "All rights reserved" not in text and "Next page" not in text and "Download" not in text
    assert not text.endswith("\n\n")


def test_a_plain_text_is_left_alone():
    for text, proposal in zip((PROSE, "", "\n\n"), load_tagger().propose([PROSE, "", "\n\n"])):
        assert [s.name for s in proposal.program.statements] == ["keep_all"] and run(proposal.program, text).status == "kept"
    assert [p.decision for p in load_tagger().propose([PROSE])] == [None]


def test_a_statement_says_who_and_how_sure():
    [proposal] = load_tagger().propose([PAGE])
    origin = proposal.program.statements[0].origin
    assert (origin.kind, origin.name, origin.version) == ("model", "tagger", load_tagger().fingerprint[:8])
    assert 0.9 < origin.confidence <= 1


def test_code_and_tables_stay_unless_it_is_very_sure():
    doubtful = replace(load_tagger(), curve=Isotonic(np.array([0.0, 1.0]), np.array([0.5, 0.5])))
    fenced = PAGE.replace("  • Download", "```\n  • Download\n```")
    lines = removed_lines(load_tagger().propose([fenced])[0]), removed_lines(doubtful.propose([fenced])[0])
    assert lines[1] and not lines[1] & {1, 2, 3} and lines[1] <= lines[0] | {1, 2, 3}


def test_any_batch_gives_the_same(monkeypatch: pytest.MonkeyPatch):
    tagger = load_tagger()
    texts = [PAGE, PROSE, "", PAGE[::-1], PAGE.replace("\n", "\r\n"), *(twin.text for twin in pages(2))]
    together = tagger.propose(texts)
    assert together == [tagger.propose([text])[0] for text in texts]
    monkeypatch.setattr("typecase.lm.tagger.model.BATCH_CHARS", 500)
    assert tagger.propose(texts) == together
    assert [a.tobytes() for a in tagger.tag(texts)] == [tagger.tag([text])[0].tobytes() for text in texts]


def test_chances_are_of_written_lines():
    [chances] = load_tagger().tag([PAGE])
    assert len(chances) == PAGE.count("\n") + 1
    assert np.isnan(chances).tolist() == [not line.strip() for line in PAGE.split("\n")]


def test_programs_run_on_odd_texts():
    texts = [
        PAGE.replace("\n", "\r\n"),
        PAGE.replace("\n", "\r"),
        PAGE + "\n\n",
        "\n" + PAGE,
        PAGE.replace("harbour", "港\u2028湾"),
        "\ud800 " + PAGE,
    ]
    for text, proposal in zip(texts, load_tagger().propose(texts)):
        if proposal.program.statements:
            assert run(proposal.program, text, FREE).num_errors == 0


def test_a_tagger_comes_back_from_its_file(fitted: Tagger, tmp_path: Path):
    (tmp_path / "tagger.npz").write_bytes(to_bytes(fitted))
    read = load_tagger(tmp_path)
    assert read.fingerprint == fitted.fingerprint != ""
    assert to_bytes(read) == to_bytes(fitted) == (tmp_path / "tagger.npz").read_bytes()
    assert read.propose([PAGE]) == fitted.propose([PAGE])


def test_training_is_the_same_twice_and_another_with_another_seed(fitted: Tagger):
    again = fit_tagger(pages(), read_noise(), SETTINGS, seed=3)
    assert to_bytes(again) == to_bytes(fitted)
    assert to_bytes(fit_tagger(pages(), read_noise(), SETTINGS, seed=4)) != to_bytes(fitted)


def test_what_it_was_taught_it_knows(fitted: Tagger):
    twins = pages()
    figures = figures_of(replace(fitted, sure=0.5, least=0.5, long=0.5), twins, twins, tagged(fitted, twins), SETTINGS, seed=3)
    assert figures["all"]["f1"] > 0.8 and figures["all"]["over_deletion"] < 0.1
    assert "| f0 | 8 |" in card_text(figures, size=1000)
    assert "no page was held out" in card_text(figures_of(fitted, twins, [], None, SETTINGS, seed=3), size=1)


def test_too_few_generators():
    with pytest.raises(BadRecipe, match="4 or more"):
        fit_tagger(pages(3), read_noise(), SETTINGS, seed=1)


def test_files_that_are_no_taggers(tmp_path: Path, fitted: Tagger):
    with pytest.raises(NotFound):
        load_tagger(tmp_path)
    with pytest.raises(CorruptStore):
        from_bytes(b"nothing", where="x")
    short = replace(fitted, words=fitted.words[:8])
    with pytest.raises(CorruptStore, match="n-grams"):
        from_bytes(to_bytes(short), where="x")
    stray = replace(fitted, first=replace(fitted.first, measure=fitted.first.measure + 4000))
    with pytest.raises(CorruptStore, match="measures"):
        from_bytes(to_bytes(stray), where="x")


def test_noise_changes_nothing_of_the_text():
    lines = PAGE.split("\n")
    put, noise = inject(lines, read_noise(), np.random.default_rng(1), blocks=4)
    assert [line for line, flag in zip(put, noise) if not flag] == lines and any(noise)
    assert all("{" not in line for line, flag in zip(put, noise) if flag)
    with pytest.raises(NotFound):
        read_noise(Path("nowhere.toml"))


def test_mixed_pages_are_text_and_furniture_of_the_twins():
    twins = pages()
    known = {line.strip() for twin in twins for i, line in enumerate(twin.lines) if i not in twin.gone}
    for number in range(20):
        page = mixed_page(twins, read_noise(), seed=1, number=number)
        assert page == mixed_page(twins, read_noise(), seed=1, number=number)
        kept = [line.strip() for i, line in enumerate(page.lines) if i not in page.gone and line.strip()]
        assert set(kept) <= known and all(page.lines[i].strip() for i in page.gone)


def test_removed_lines_are_those_of_the_program():
    [proposal] = load_tagger().propose([PAGE])
    assert removed_lines(proposal) >= {0, 1, 2, 3, 4} and 8 not in removed_lines(proposal)
