"""Selection as the specification says it, one document after the other: the slow twin of the fast path."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction

from typecase.core.selection.bounds import Bounds, bounded
from typecase.core.selection.quota import Label, apportion, quotas_of_table, spill, tempered
from typecase.core.selection.selection import Budget, Policy

Row = tuple[str, int, int, float]
"""(doc_id, amount, stratum, score)"""

_WORD = (1 << 64) - 1


def seed_of(seed: int, purpose: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{purpose}".encode(), digest_size=8).digest(), "little")


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _WORD
    return z ^ (z >> 31)


def hash_of(doc_id: str, seed: int) -> int:
    z = mix((seed + 0x9E3779B97F4A7C15) & _WORD)
    return mix(mix(z ^ int(doc_id[:16], 16)) ^ int(doc_id[16:], 16))


def gumbel_of(word: int) -> float:
    u = ((word >> 12) + 0.5) * 2.0**-52
    return -math.log(-math.log(u))


def naive_rank(doc_id: str, score: float, group: Sequence[float]) -> float:
    """(how many scores of the group are below + a place among the equals, by hash) / how many there are."""
    place = ((hash_of(doc_id, seed_of(0, "rank place")) >> 11) + 0.5) * 2.0**-53
    below, equal = sum(g < score for g in group), sum(g == score for g in group)
    return (below + equal * place) / len(group) if group else 0.0


def naive_select(
    rows: Sequence[Row], labels: Sequence[Label], budget: Budget, policy: Policy, seed: int
) -> tuple[list[str], list[float], list[int], list[int], list[int]]:
    """(reason and key of every row, quota before the spill, amount met, copies of every row); `labels` are sorted."""
    score, reason = [r[3] for r in rows], [""] * len(rows)
    rated = [Fraction(s) for s in score if not math.isnan(s) and not math.isinf(s)]
    for i, (_, _, stratum, s) in enumerate(rows):
        wanted = policy.wanted
        if any(labels[stratum][policy.strata.index(column)] not in names for column, names in wanted.items()):
            reason[i] = "stratum not asked for"
        elif policy.needs_score:
            mine = [Fraction(r[3]) for r in rows if r[2] == stratum and math.isfinite(r[3])] or rated
            if math.isnan(s) and (policy.missing == "exclude" or not mine):
                reason[i] = "missing rating"
                continue
            if math.isnan(s):
                score[i] = s = float(min(mine)) if policy.missing == "lowest" else float(sum(mine) / len(mine))
            outside = not (policy.at_least or -math.inf) <= s <= (math.inf if policy.at_most is None else policy.at_most)
            if policy.between is not None:
                of_stratum = [r[3] for r in rows if r[2] == stratum and math.isfinite(r[3])]
                rank = naive_rank(rows[i][0], s, of_stratum)
                outside = outside or not policy.between[0] <= rank <= policy.between[1]
            if math.isinf(s) or (policy.key in ("proportional", "per_token") and s < 0):
                reason[i] = "invalid score"
            elif outside != (policy.inverted and policy.filters):
                reason[i] = "score out of range"

    keys: list[tuple[float, int, str]] = []
    used: list[float] = []
    for i, (doc_id, amount, stratum, _) in enumerate(rows):
        z, noise = score[i], gumbel_of(hash_of(doc_id, seed_of(seed, "select noise")))
        of_stratum = [r[3] for r in rows if r[2] == stratum and math.isfinite(r[3])]
        if policy.normalise in ("rank", "stratum_rank") and not reason[i]:
            group = of_stratum if policy.normalise == "stratum_rank" else [float(s) for s in rated]
            z = naive_rank(doc_id, z, group)
        elif policy.normalise != "none" and not reason[i]:
            mine = rated
            if policy.normalise == "stratum":
                mine = [Fraction(r[3]) for r in rows if r[2] == stratum and math.isfinite(r[3])]
            mean = sum(mine) / len(mine) if mine else Fraction(0)
            var = sum(s * s for s in mine) / len(mine) - mean**2 if mine else Fraction(0)
            z = (z - float(mean)) / (math.sqrt(float(var)) or 1.0)
        sign = -1.0 if policy.inverted else 1.0
        if policy.key == "uniform":
            key = noise
        elif policy.key == "top_k" or (policy.key == "gumbel" and policy.temperature == 0):
            key = sign * z
        elif policy.key == "gumbel":
            key = sign / policy.temperature * z + noise
        elif policy.key == "middle":
            key = -sign * abs(naive_rank(doc_id, score[i], of_stratum) - 0.5)
        elif reason[i] or z == 0:
            key = -sign * math.inf
        else:
            cost = max(1, amount) if policy.key == "per_token" else 1
            key = sign * (math.log(z) - math.log(cost)) + noise
        used.append(math.nan if reason[i] else key)
        keys.append((-key, hash_of(doc_id, seed_of(0, "select tie")), doc_id))

    corpus, pool = [0] * len(labels), [0] * len(labels)
    for i, (_, amount, stratum, _) in enumerate(rows):
        corpus[stratum] += amount
        pool[stratum] += 0 if reason[i] else amount
    wanted = list(range(len(labels)))
    if policy.quota != "table":
        wanted = [s for s in wanted if all(labels[s][policy.strata.index(c)] in n for c, n in policy.wanted.items())]
    asked, quotas = [0] * len(labels), [0] * len(labels)
    names, mass, room = [labels[s] for s in wanted], [corpus[s] for s in wanted], [pool[s] for s in wanted]
    if policy.quota == "table":
        shares, weights = quotas_of_table(policy.quota_table, names, mass, budget.amount)
    else:
        weights = {"corpus": mass, "pool": room, "equal": [1] * len(names), "tempered": tempered(mass, policy.alpha)}[
            policy.quota
        ]
        shares = apportion(weights, budget.amount)
    bounds = Bounds.of(policy.floor_table, policy.cap_table, names, budget.amount)
    shares = bounded(shares, weights, names, bounds) if bounds else shares
    most = [policy.epochs * r for r in room]
    after = [min(share, limit) for share, limit in zip(shares, most, strict=True)]
    if policy.spill == "siblings":
        after = spill(shares, most, weights, names, policy.strata, bounds.caps).quotas
    for s, share, quota in zip(wanted, shares, after, strict=True):
        asked[s], quotas[s] = share, quota

    met, copies = [0] * len(labels), [0] * len(rows)
    for stratum in range(len(labels)):
        running = [i for i in range(len(rows)) if rows[i][2] == stratum and not reason[i]]
        ordered = sorted(running, key=lambda i: keys[i])
        amounts, quota, whole = [rows[i][1] for i in ordered], quotas[stratum], 0
        while whole + 1 < policy.epochs and quota > sum(amounts) > 0:
            quota -= sum(amounts)
            whole += 1
        num = prefix(amounts, quota, policy.cut)
        for place, i in enumerate(ordered):
            copies[i] = whole + (place < num)
            reason[i] = "kept" if copies[i] else "below cut"
        met[stratum] = whole * sum(amounts) + sum(amounts[:num])
    return reason, used, asked, met, copies


def prefix(amounts: Sequence[int], quota: int, cut: str) -> int:
    """How many of the first documents are kept."""
    if quota <= 0 or sum(amounts) <= quota:
        return len(amounts) if quota > 0 else 0
    total = 0
    for place, amount in enumerate(amounts):
        if total + amount >= quota:
            over, under = total + amount - quota, quota - total
            keep = over == 0 or cut == "over" or (cut == "nearest" and over < under)
            return place + keep
        total += amount
    raise AssertionError("the sum exceeds the quota, so it is reached")
