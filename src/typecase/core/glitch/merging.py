"""Merging: the replay of a BPE on one token, the forest that the merges grow, and who absorbs whom.

    reach      run(t) = merge the symbols of t by lowest rank, leftmost first; t is reached when one symbol is left
    forest     every reached token -> the two it was merged of at last:   (clone, embedreportprint) -> cloneembedreportprint
    absorbed   appearances(t) = count(t) + sum of appearances(p) over every place of t among the two children of p

Lemma (see `store.tokenizer.proof`): a token inside a longer piece is built by merges within its own span, in the order in
which it is built alone. So a token that its own replay does not reach comes up in no text; and each occurrence of p was, one
merge before, exactly its two children. Hence `appearances` counts, without replaying the corpus, how often t stood for a
moment while the corpus was encoded; its share that later merges took, IoS = 1 - count / appearances, marks a scaffold.

Both need a plain merging model: one that looks a whole piece up first (`ignore_merges`, tiktoken) reaches further, and its
appearances are those of the merges it would have made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt


def replay(symbols: Sequence[str], ranks: Mapping[tuple[str, str], int]) -> tuple[list[str], tuple[str, str] | None]:
    """What is left of `symbols`, and the last merge that was made (None when there was none).

    The neighbours of lowest rank merge first, leftmost of equals, until none may.
    """
    parts = list(symbols)
    last: tuple[str, str] | None = None
    while len(parts) > 1:
        best, place = None, 0
        for k in range(len(parts) - 1):
            rank = ranks.get((parts[k], parts[k + 1]))
            if rank is not None and (best is None or rank < best):
                best, place = rank, k
        if best is None:
            break
        last = parts[place], parts[place + 1]
        parts[place : place + 2] = [last[0] + last[1]]
    return parts, last


def replay_ranked(data: bytes, ranks: Mapping[bytes, int]) -> tuple[list[bytes], tuple[bytes, bytes] | None]:
    """As `replay` for a rank table: neighbours merge where their bytes together are in it, ranked by it."""
    parts = [data[k : k + 1] for k in range(len(data))]
    last: tuple[bytes, bytes] | None = None
    while len(parts) > 1:
        best, place = None, 0
        for k in range(len(parts) - 1):
            rank = ranks.get(parts[k] + parts[k + 1])
            if rank is not None and (best is None or rank < best):
                best, place = rank, k
        if best is None:
            break
        last = parts[place], parts[place + 1]
        parts[place : place + 2] = [last[0] + last[1]]
    return parts, last


def best_segmentation(text: str, scores: Mapping[str, float], *, unknown: float) -> list[str]:
    """The segmentation of highest total score (Unigram); a character that is no entry costs `unknown` alone.

    Among equals the last piece is the longest.
    """
    longest = 64
    best = [0.0] + [-np.inf] * len(text)
    back = [0] * (len(text) + 1)
    for stop in range(1, len(text) + 1):
        for start in range(max(0, stop - longest), stop):
            score = scores.get(text[start:stop])
            if score is None:
                if stop - start > 1:
                    continue
                score = unknown
            if best[start] + score > best[stop]:
                best[stop], back[stop] = best[start] + score, start
    pieces, stop = [], len(text)
    while stop:
        pieces.append(text[back[stop] : stop])
        stop = back[stop]
    return pieces[::-1]


def appearances(
    counts: npt.NDArray[np.int64], children: npt.NDArray[np.int32], order: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """How often each id stood while a corpus with these `counts` was encoded, int64 (V,).

    `children` int32 (V, 2) are the two ids that a token was merged of, -1 for none; `order` lists the merged tokens so that
    every token comes after its children.
    """
    total = counts.astype(np.int64, copy=True)
    for token in order[::-1].tolist():
        left, right = children[token]
        total[left] += total[token]
        total[right] += total[token]
    return total


def absorbed_share(counts: npt.NDArray[np.int64], stood: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """IoS: the share of its appearances that later merges took, NaN for a token that never stood."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(stood > 0, 1 - counts / stood, np.nan)
