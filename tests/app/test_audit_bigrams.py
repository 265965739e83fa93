"""audit bigrams: pairs are counted as they stand in a set, and asked for beside the same text cut elsewhere."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conftest import make_docs_artifact, make_documents
from tests.lm.tiny import make_tiny, one_thread  # noqa: F401
from typecase.app.audit.bigrams import audit_bigrams
from typecase.app.audit.pairs import ask_pairs, cut_apart
from typecase.app.commands.audit import audit_command
from typecase.errors import BadQuery
from typecase.lm.copying.copying import Form
from typecase.recipe.build import Build
from typecase.recipe.run import run_stage
from typecase.store.audit.vocabulary import open_vocabulary
from typecase.store.tokens.store import open_tokens

DATA = Path(__file__).parents[1] / "data" / "tokenizers"
CUT = (("a", "Ã"), ("©", "b"), ("w", "q"), ("wq", "z"))
"""Merges that cut é: `aé` is aÃ + ©, `éb` is Ã + ©b, and `aéb` aÃ + ©b; and a word for the forms that no text holds."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return make_tiny(tmp_path_factory.mktemp("tiny") / "model", merges=CUT)


@pytest.fixture(scope="module")
def tokens(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    docs = make_docs_artifact(folder / "docs", make_documents(["aé aé und à", "ééb", "plain", "caébé"]), 2)
    run_stage(Build(tokenizer=str(tiny / "tokenizer.json"), eod=1), {"docs": docs}, folder / "tokens")
    return folder / "tokens"


def test_pairs_of_a_set_are_counted(tiny: Path, tokens: Path) -> None:
    found = audit_bigrams(tiny, tokens=tokens)
    store = open_tokens(tokens)
    naive = Counter(two for d in range(store.num_documents) for two in itertools.pairwise(store.read(d).tolist()))
    rows = found.table.to_pylist()
    counts = {row["text"]: row["count"] for row in rows}
    assert all(row["count"] == naive[row["a"], row["b"]] for row in rows)
    assert (counts["aé"], counts["éb"], counts["aéb"], counts["à"], counts["ü"]) == (2, 1, 1, 1, 0)
    assert found.corpus_tokens == store.num_tokens and found.never == sum(row["count"] == 0 for row in rows) > 1000
    assert [row["count"] for row in rows] == sorted(row["count"] for row in rows), "what the corpus never shows comes first"
    with pytest.raises(BadQuery, match="was built with a tokenizer of"):
        audit_bigrams(DATA / "gpt4.json", tokens=tokens)


def test_a_text_is_cut_elsewhere(tiny: Path) -> None:
    vocabulary = open_vocabulary(tiny)
    for text in ("aé", "éb", "aéb"):
        (pair,) = vocabulary.codec.encode([text])
        apart = cut_apart(vocabulary, text, (pair[0], pair[1]))
        assert len(pair) == 2 and len(apart) == len(text.encode()), "byte by byte, for é alone is two bytes"
    (pair,) = vocabulary.codec.encode(["é"])
    assert cut_apart(vocabulary, "é", (pair[0], pair[1])) == (), "there is no other cut"


def test_a_model_that_stumbles_over_a_cut(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever holds aÃ is not repeated; the same texts in bytes are."""
    from typecase.lm.copying.local import LocalCopier

    vocabulary = open_vocabulary(tiny)
    bad = vocabulary.codec.encode(["aé"])[0][0]

    def chances(self: LocalCopier, form: Form, rows: Sequence[Sequence[int]]) -> list[float]:
        return [0.0001 if bad in row else 0.9 for row in rows]

    monkeypatch.setattr(LocalCopier, "row_chances", chances)
    listed = audit_bigrams(tiny)
    found = ask_pairs(listed, tiny, tmp_path / "answers", most=listed.made, device="cpu")
    rows = {row["text"]: row for row in found.table.to_pylist()}
    assert not found.void and found.asked == listed.made == len(rows)
    broken = {text for text, row in rows.items() if row["broken"]}
    assert broken == {text for text, row in rows.items() if row["a"] == bad} and {"aé", "aéb"} <= broken
    assert found.broken.hits == len(broken) and found.by_the_cut.hits == found.by_the_cut.trials == len(broken)
    assert rows["aé"]["by_the_cut"] and rows["aé"]["control_p"] == 0.9 and rows["é"]["by_the_cut"] is None
    monkeypatch.setattr(LocalCopier, "row_chances", lambda *_: pytest.fail("all is answered"))
    assert ask_pairs(listed, tiny, tmp_path / "answers", most=listed.made, device="cpu").table.equals(found.table)


def test_a_model_that_cannot_repeat_is_void(tiny: Path, tokens: Path, tmp_path: Path) -> None:
    asked = ["bigrams", str(tiny), "--tokens", str(tokens), "--model", str(tiny), "-o", str(tmp_path / "a"), "--most", "6"]
    done = CliRunner().invoke(audit_command, [*asked, "--device", "cpu", "--quiet"], catch_exceptions=False)
    assert (
        done.exit_code == 3 and "VOID" in done.output and "stand nowhere in the" in done.output and "control_p" in done.output
    )
    done = CliRunner().invoke(audit_command, [*asked, "--device", "cpu", "--json", "--where", "true"], catch_exceptions=False)
    told = json.loads(done.output)
    assert told["model"]["void"] and told["model"]["asked"] == len(told["rows"]) == 6
    assert CliRunner().invoke(audit_command, ["bigrams", str(tiny), "--model", str(tiny)]).exit_code == 2


def test_a_model_of_another_tokenizer_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(BadQuery, match="has another tokenizer than"):
        ask_pairs(audit_bigrams(DATA / "gpt4.json"), tiny, tmp_path / "a", device="cpu")
