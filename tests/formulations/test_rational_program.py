"""Small linear programs: optima that prove themselves, and none where no vertex exists."""

from fractions import Fraction
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from lowtide.formulations.rational_program import Row, minimize
from tests.effort import many

NAMES = ("x", "y", "z")
NUMBERS = st.fractions(-4, 4, max_denominator=3)
ROWS = st.lists(
    st.tuples(st.fixed_dictionaries(dict.fromkeys(NAMES, NUMBERS)), NUMBERS), min_size=1, max_size=4
)
COSTS = st.fixed_dictionaries(dict.fromkeys(NAMES, st.fractions(0, 4, max_denominator=3)))


@many(100)
@given(COSTS, ROWS)
def test_an_optimum_and_its_prices_prove_each_other(cost: dict[str, Fraction], rows: list[Row]) -> None:
    found = minimize(cost, rows)
    if found is None:
        assert not _has_vertex(rows)
        return
    assert min(found.values.values()) >= 0
    assert min(found.prices) >= 0
    assert all(sum(f[x] * found.values[x] for x in NAMES) <= limit for f, limit in rows)
    priced = list(zip(found.prices, rows, strict=True))
    assert all(cost[x] + sum(price * f[x] for price, (f, _) in priced) >= 0 for x in NAMES)
    assert found.objective == sum(cost[x] * found.values[x] for x in NAMES)
    assert found.objective == -sum(price * limit for price, (_, limit) in priced)


def _has_vertex(rows: list[Row]) -> bool:
    """Whether three of the rows and of x >= 0 meet in a point that satisfies all: so every region has one."""
    planes = [([Fraction(f[x]) for x in NAMES], Fraction(limit)) for f, limit in rows]
    planes += [([Fraction(-(x == y)) for y in NAMES], Fraction(0)) for x in NAMES]
    for (a, p), (b, q), (c, r) in combinations(planes, 3):
        whole = _determinant(a, b, c)
        if whole:
            right = (p, q, r)
            point = []
            for j in range(3):
                columns = [
                    [*line[:j], value, *line[j + 1 :]] for line, value in zip((a, b, c), right, strict=True)
                ]
                point.append(_determinant(*columns) / whole)
            if all(sum(v * x for v, x in zip(line, point, strict=True)) <= limit for line, limit in planes):
                return True
    return False


def _determinant(a: list[Fraction], b: list[Fraction], c: list[Fraction]) -> Fraction:
    return (
        a[0] * (b[1] * c[2] - b[2] * c[1])
        - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
    )


def test_names_that_only_some_rows_have() -> None:
    found = minimize({"x": 2, "y": 3}, [({"x": -1, "y": -1}, -4), ({"x": 2}, 3), ({"free": -1}, -7)])
    assert found is not None
    assert found.values == {"x": Fraction(3, 2), "y": Fraction(5, 2), "free": 7}
    assert minimize({}, [({"x": 1}, -1)]) is None
