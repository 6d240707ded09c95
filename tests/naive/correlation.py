"""The steps of correlation-based balancing by their definitions: sets of substreams, every sum anew."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, permutations

Matrix = Sequence[Sequence[int]]


def covariance(one: Sequence[int], other: Sequence[int]) -> Fraction:
    """Line 4 of Algorithm 2: E[XY] - E[X] E[Y]."""
    m = len(one)
    return Fraction(sum(x * y for x, y in zip(one, other, strict=True)), m) - Fraction(sum(one) * sum(other), m * m)


def cross_covariance(covariances: Matrix, sets: Sequence[int]) -> int:
    """The right side of eq. 5: twice the covariances of pairs that lie in different sets."""
    pairs = combinations(range(len(sets)), 2)
    return 2 * sum(covariances[i][j] for i, j in pairs if sets[i] != sets[j])


def split(covariances: Matrix, least: Sequence[int], n_sets: int) -> list[int]:
    n = len(covariances)
    sets = [0] * n
    tried: set[int] = set()
    n_made = 1
    while n_made < n_sets:
        weights = [
            0
            if i in tried
            else sum(
                covariances[i][j]
                for j in range(n)
                if j != i and sets[j] == sets[i] and covariances[i][j] >= least[i] * least[j]
            )
            for i in range(n)
        ]
        pivot = max(range(n), key=lambda i: (weights[i], -i))
        if weights[pivot] <= 0:
            return sets
        after = list(sets)
        for i in range(n):
            if sets[i] == sets[pivot] and i != pivot and covariances[pivot][i] >= least[pivot] * least[i]:
                without = [*after[:i], n_made, *after[i + 1 :]]
                if cross_covariance(covariances, without) > cross_covariance(covariances, after):
                    after = without
        if after == sets:
            tried.add(pivot)
            continue
        tried -= {i for i in range(n) if sets[i] == sets[pivot]}
        sets = after
        n_made += 1
    return sets


def split_as_printed(covariances: Matrix, threshold: int, n_sets: int) -> list[int]:
    """Algorithm 2, line by line, with sets of substreams."""
    n = len(covariances)
    weights = [sum(covariances[i][j] for j in range(n) if j != i and covariances[i][j] >= threshold) for i in range(n)]
    subsets: list[set[int]] = [set(range(n))]  # line 1
    for r in range(n_sets):
        pivot = max(range(n), key=lambda i: (weights[i], -i))
        home = next(h for h, subset in enumerate(subsets) if pivot in subset)
        for i in sorted(subsets[home]):
            if covariances[pivot][i] <= threshold:
                subsets[home].discard(i)
                weights[i] = 0
                for j in subsets[home]:
                    weights[j] -= covariances[i][j]
                for j in subsets[r]:
                    if j != i:
                        weights[j] += covariances[i][j]
                subsets[r].add(i)
        subsets.append(set())
    return [next(h for h, subset in enumerate(subsets) if i in subset) for i in range(n)]


def even_out(moments: Matrix, means: Sequence[int], sets: Sequence[int], n_sets: int) -> list[int]:
    """Lower the sum of moments within sets, move by move, from the fullest set down."""
    sets = list(sets)

    def cost(of: Sequence[int]) -> int:
        return sum(moments[i][j] for i, j in combinations(range(len(of)), 2) if of[i] == of[j])

    settled: set[int] = set()
    while len(settled) < n_sets:
        loads = [sum(means[i] for i in range(len(sets)) if sets[i] == one) for one in range(n_sets)]
        most = max(set(range(n_sets)) - settled, key=lambda one: (loads[one], -one))
        moves = {
            (i, other): cost([*sets[:i], other, *sets[i + 1 :]])
            for i in range(len(sets))
            for other in range(n_sets)
            if sets[i] == most and other != most
        }
        best = min(moves, key=lambda move: (moves[move], move), default=None)
        if best is None or loads[most] <= 1.05 * (sum(loads) / n_sets) or moves[best] >= cost(sets):
            settled.add(most)
        else:
            sets[best[0]] = best[1]
    return sets


def stays(owners: Sequence[int], sets: Sequence[int], table: Sequence[int], weights: Sequence[int]) -> int:
    """What stays where it is if set number s goes to worker owners[s]."""
    return sum(w for one, worker, w in zip(sets, table, weights, strict=True) if owners[one] == worker)


def most_that_can_stay(sets: Sequence[int], table: Sequence[int], weights: Sequence[int], n_workers: int) -> int:
    return max(stays(owners, sets, table, weights) for owners in permutations(range(n_workers)))


def relabel(sets: Sequence[int], table: Sequence[int], weights: Sequence[int], n_workers: int) -> list[int]:
    owners: dict[int, int] = {}
    while len(owners) < n_workers:
        common = {
            (one, worker): sum(w for a, b, w in zip(sets, table, weights, strict=True) if (a, b) == (one, worker))
            for one in range(n_workers)
            for worker in range(n_workers)
            if one not in owners and worker not in owners.values()
        }
        one, worker = max(common, key=lambda pair: (common[pair], -pair[0], -pair[1]))
        owners[one] = worker
    return [owners[one] for one in sets]
