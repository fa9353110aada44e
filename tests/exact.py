"""Independent truth for small problems: every split of the rows tried, in fractions.

Nothing here is shared with the package: a partition into margin, error and reserve is guessed, its
linear system solved by plain Gaussian elimination, and the optimality conditions checked.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

Row = list[Fraction]


def gauss(matrix: list[Row], right: Row) -> Row | None:
    """Solution of a square system, or None if it is singular."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for k in range(size):
        pivot = next((i for i in range(k, size) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(size):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [rows[k][size] / rows[k][k] for k in range(size)]


def times(q: list[Row], b: Row) -> Row:
    return [sum((x * y for x, y in zip(line, b, strict=True)), Fraction(0)) for line in q]


def violation(q: list[Row], b: Row, mu: Fraction) -> Fraction:
    """Largest violation of the optimality conditions of masses b with multiplier mu."""
    wrong = [Fraction(0)]
    for x, h in zip(b, times(q, b), strict=True):
        wrong.append(abs(h - mu) if 0 < x < 1 else h - mu if x >= 1 else mu - h)
        wrong.append(max(-x, x - 1))
    return max(wrong)


def enumerated_optimum(q: list[Row], total: Fraction) -> tuple[Row, Fraction]:
    """Masses and multiplier of ``min b'Qb, sum(b) = total, 0 <= b <= 1``, by trying all splits."""
    n = len(q)
    for split in product("SER", repeat=n):
        margin = [i for i in range(n) if split[i] == "S"]
        b = [Fraction(int(letter == "E")) for letter in split]
        rest = total - sum(b)
        if margin:
            load = times(q, b)
            system = [[*(q[i][j] for j in margin), Fraction(-1)] for i in margin]
            system.append([Fraction(1)] * len(margin) + [Fraction(0)])
            answer = gauss(system, [*(-load[i] for i in margin), rest])
            if answer is None:
                continue
            for i, value in zip(margin, answer, strict=False):
                b[i] = value
            mu = answer[-1]
        elif rest == 0:
            mu = max(h for h, x in zip(times(q, b), b, strict=True) if x == 1)
        else:
            continue
        if violation(q, b, mu) == 0:
            full = [h for h, x in zip(times(q, b), b, strict=True) if x == 1]
            inside = any(0 < x < 1 for x in b)
            return b, mu if inside else max(full)  # the rule for an empty margin
    raise AssertionError("no split of the rows satisfies the conditions")
