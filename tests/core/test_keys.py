"""Keyed noise: pinned values, the right distribution, the same for any order."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.naive_selection import gumbel_of, hash_of, seed_of
from typecase.core.document import id_from_key
from typecase.core.selection.keys import Digest, derive_seed, gumbel_noise, hash_ids, id_words, log_exact, rank_of, raw_ids

IDS = [id_from_key(str(i)) for i in range(20_000)]


def test_golden_values() -> None:
    """Pinned: another value would change every selection ever made, so changing one is a decision, not a fix."""
    ids = raw_ids(["00" * 16, "ff" * 16, "000102030405060708090a0b0c0d0e0f", IDS[0]])
    assert derive_seed(1, "select noise") == GOLDEN_SEED
    assert [hex(word) for word in hash_ids(ids, seed=1, purpose="select noise")] == GOLDEN_WORDS
    assert [float(g).hex() for g in gumbel_noise(ids, seed=1, purpose="select noise")] == GOLDEN_NOISE
    assert str(Digest.of(*id_words(ids), np.ones(4, np.bool_))) == GOLDEN_DIGEST


GOLDEN_SEED = 5832120522338235824
GOLDEN_WORDS = ["0x6f49d0f8e22d2fa8", "0x434392d6d652e541", "0xd48d816cc2cbcf00", "0x6e0e9ae369ee7ef8"]
GOLDEN_NOISE = ["0x1.76157625cc785p-3", "-0x1.290e5a85cdfd4p-2", "0x1.ae9c9e395c017p+0", "0x1.5ae9ca653e86bp-3"]
GOLDEN_DIGEST = "c717d81e76f0973d24689bde4064626f"


@settings(deadline=None)
@given(st.lists(st.binary(min_size=16, max_size=16), max_size=20), st.integers(-(1 << 70), 1 << 70))
def test_fast_equals_the_definition(raw: list[bytes], seed: int) -> None:
    ids = np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 16)
    slow = [hash_of(r.hex(), seed_of(seed, "x")) for r in raw]
    assert hash_ids(ids, seed=seed, purpose="x").tolist() == slow
    np.testing.assert_allclose(gumbel_noise(ids, seed=seed, purpose="x"), [gumbel_of(w) for w in slow], rtol=1e-14, atol=1e-14)


@settings(deadline=None)
@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_the_logarithm_is_right_to_the_last_places(x: float) -> None:
    assert abs(log_exact(x) - math.log(x)) <= 4.5e-16 * max(1e-3, abs(math.log(x))) * 2


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=30))
def test_ranks_rise_as_keys_fall(keys: list[float]) -> None:
    by_rank = sorted(keys, key=lambda k: int(rank_of(k)))
    assert by_rank == sorted(keys, reverse=True)
    assert rank_of(0.0) == rank_of(-0.0)


def test_noise_is_gumbel_and_purposes_are_independent() -> None:
    ids = raw_ids(IDS)
    noise = gumbel_noise(ids, seed=7, purpose="a")
    other = [gumbel_noise(ids, seed=7, purpose="b"), gumbel_noise(ids, seed=8, purpose="a")]
    assert abs(noise.mean() - 0.5772) < 0.03
    assert abs(noise.var() - math.pi**2 / 6) < 0.1
    for draws in other:
        assert abs(np.corrcoef(noise, draws)[0, 1]) < 0.03
    uniform = np.sort(np.exp(-np.exp(-noise)))
    assert np.abs(uniform - (np.arange(len(IDS)) + 0.5) / len(IDS)).max() < 1.63 / math.sqrt(len(IDS))  # Kolmogorov, 1 %


def test_words_sort_as_hexadecimal_ids() -> None:
    hi, lo = id_words(raw_ids(IDS[:500]))
    assert [IDS[i] for i in np.lexsort((lo, hi))] == sorted(IDS[:500])


@settings(deadline=None)
@given(st.data())
def test_digests_add_up_in_any_order(data: st.DataObject) -> None:
    ids = raw_ids(IDS[:50])
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=50, max_size=50)))
    order = np.array(data.draw(st.permutations(range(50))))
    cut = data.draw(st.integers(0, 50))
    whole = Digest.of(*id_words(ids), kept)
    moved = Digest.of(*id_words(ids[order]), kept[order])
    parts = Digest.of(*id_words(ids[:cut]), kept[:cut]) + Digest.of(*id_words(ids[cut:]), kept[cut:])
    assert whole == moved == parts
    assert (whole == Digest()) == (not kept.any())
