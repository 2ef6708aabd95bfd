"""Which slow tests a commit runs: a share of them, another one after each commit."""

from __future__ import annotations

from tests.drawn import is_drawn

TESTS = [f"tests/test_a.py::test_b[{k}]" for k in range(2_000)]


def drawn(one_in: int, commit: str) -> set[str]:
    return {test for test in TESTS if is_drawn(test, one_in, commit)}


def test_a_share_is_drawn_the_same_one_each_time() -> None:
    assert 400 < len(drawn(4, "abc")) < 600
    assert drawn(4, "abc") == drawn(4, "abc")


def test_another_commit_draws_other_tests_and_many_commits_all_of_them() -> None:
    first, second = drawn(4, "abc"), drawn(4, "abd")
    assert len(first & second) < 200
    assert set().union(*(drawn(4, f"{commit:x}") for commit in range(60))) == set(TESTS)


def test_one_in_one_is_all() -> None:
    assert drawn(1, "abc") == set(TESTS)
