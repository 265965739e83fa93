"""Copying on a real forward pass: chances are those of the whole prompt, and a killed run ends in the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.lm.tiny import make_tiny, one_thread  # noqa: F401
from typecase.lm.copying.copying import CANDIDATE, Form
from typecase.lm.copying.verifying import Journal, verify


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return make_tiny(tmp_path_factory.mktemp("tiny") / "llama")


def test_chances_are_those_of_the_whole_prompt(tiny: Path) -> None:
    import torch

    from typecase.lm.copying.local import LocalCopier

    copier = LocalCopier(tiny, device="cpu")
    form = Form("x", (*range(20, 45), CANDIDATE, 60, CANDIDATE, 61), 3)
    ids = [5, 9, 70, 200]
    found = copier.chances(form, ids, stop_at=2.0)
    for token, chances in zip(ids, found):
        row = form.filled(token)
        assert chances is not None and len(chances) == 3
        for p in chances:
            with torch.inference_mode():
                logits = copier.forward.model(input_ids=torch.tensor([row])).logits[0, -1]
            assert p == pytest.approx(float(logits.softmax(0)[token]), rel=1e-4)
            row = [*row, int(logits.argmax())]
    assert all(len(c or ()) == 1 for c in copier.chances(form, ids, stop_at=0.0))
    alone = copier.chances(form, [9], stop_at=2.0)[0]
    assert alone == pytest.approx(found[1], rel=1e-4)
    assert copier.tokens > 0


def test_a_row_is_repeated_token_after_token(tiny: Path) -> None:
    """The product of the chances of its ids, whatever stands in one batch with it."""
    import torch

    from typecase.lm.copying.local import LocalCopier
    from typecase.lm.copying.rows import RowCopier

    copier = LocalCopier(tiny, device="cpu", batch=2)
    form = Form("x", (*range(20, 45), CANDIDATE, 60, CANDIDATE, 61), 3)
    rows = [(5, 9), (70,), (200, 9, 31, 7), (9, 5), (), (44, 45)]
    asking = RowCopier(copier, rows)
    able = asking.able(range(len(rows)))
    assert able == [0, 1, 2, 3, 5]
    for k, chances in zip(able, asking.chances(form, able, stop_at=0.0), strict=True):
        prompt = form.filled_with(rows[k])
        assert prompt == [i for one in form.ids for i in (rows[k] if one == CANDIDATE else (one,))]
        with torch.inference_mode():
            logits = copier.forward.model(input_ids=torch.tensor([[*prompt, *rows[k]]])).logits[0].log_softmax(-1)
        expected = sum(float(logits[len(prompt) - 1 + at, token]) for at, token in enumerate(rows[k]))
        assert chances is not None and chances == (pytest.approx(np.exp(expected), rel=1e-3),)
    assert asking.tokens == copier.tokens > 0


@pytest.mark.parametrize("batches", [1, 3, 5])
def test_a_killed_run_of_a_real_model_ends_in_the_same_numbers(tiny: Path, tmp_path: Path, batches: int) -> None:
    """To the last bit: what a batch shares does not depend on the batches before it."""
    from typecase.lm.copying.local import LocalCopier

    rng = np.random.default_rng(3)
    forms = tuple(Form(name, (*rng.integers(2, 250, 40).tolist(), CANDIDATE, 7, CANDIDATE), 3) for name in ("a", "b"))
    ids = list(range(2, 99))  # the last batch has a single row

    class Killed:
        def __init__(self) -> None:
            self.inner, self.left, self.tokens, self.fingerprint = LocalCopier(tiny, device="cpu"), batches, 0, "x"

        def able(self, ids: Sequence[int]) -> list[int]:
            return list(ids)

        def chances(self, form: Form, ids: Sequence[int], stop_at: float) -> list[tuple[float, ...] | None]:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            return self.inner.chances(form, ids, stop_at)

    whole = verify(LocalCopier(tiny, device="cpu"), forms, ids, Journal(tmp_path / "w", "r"), limit=0.01)
    with pytest.raises(KeyboardInterrupt):
        verify(Killed(), forms, ids, Journal(tmp_path / "k", "r"), limit=0.01)
    again = verify(LocalCopier(tiny, device="cpu"), forms, ids, Journal(tmp_path / "k", "r"), limit=0.01)
    assert again == whole and (tmp_path / "k").read_bytes() == (tmp_path / "w").read_bytes()


def test_marginal_is_a_mean_of_distributions(tiny: Path) -> None:
    import torch

    from typecase.lm.copying.local import CONTEXT, LocalCopier

    copier = LocalCopier(tiny, device="cpu")
    text = "the sand and the stone in one place, " * 40
    found = copier.marginal([text], positions=10**6)
    assert found.mean.sum() == pytest.approx(1, abs=1e-6) and (found.error >= 0).all()
    (ids,) = copier.encode_bare([text])
    size = min(CONTEXT, len(ids))
    windows = [ids[at : at + size] for at in range(0, len(ids) - size + 1, size)]
    with torch.inference_mode():
        logits = copier.forward.model(input_ids=torch.tensor(windows)).logits[:, 1:].double().softmax(-1)
    expected = logits.reshape(-1, logits.shape[-1]).mean(0).numpy()
    np.testing.assert_allclose(found.mean, expected, rtol=1e-4)
    assert found.positions == logits.shape[0] * logits.shape[1]
    fewer = copier.marginal([text], positions=100)
    assert fewer.positions == 100 and fewer.mean_logit.shape == found.mean.shape
