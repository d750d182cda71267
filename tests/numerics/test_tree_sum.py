"""Sums along a tree have one order, whatever comes first."""

import itertools

import numpy as np
import pytest

from cavity.numerics.tree_sum import TreeSum, added, summed

# Written out by hand for the numbers of terms that come first.
BRACKETS = {
    1: "0",
    2: "(01)",
    3: "((01)2)",
    4: "((01)(23))",
    5: "(((01)(23))4)",
    6: "(((01)(23))(45))",
    7: "(((01)(23))((45)6))",
}


def brackets(count, order):
    tree = TreeSum(count, lambda a, b: f"({a}{b})")
    for index in order:
        tree.put(index, str(index))
    return tree.total


@pytest.mark.parametrize("count", BRACKETS)
def test_the_order_is_that_of_the_tree(count):
    orders = itertools.islice(itertools.permutations(range(count)), 200)
    backwards = range(count - 1, -1, -1)
    assert {brackets(count, order) for order in (*orders, backwards)} == {BRACKETS[count]}


@pytest.mark.parametrize("count", BRACKETS)
def test_terms_of_unknown_number_have_the_same_order(count):
    assert summed((str(i) for i in range(count)), lambda a, b: f"({a}{b})") == BRACKETS[count]


def test_nothing_adds_nothing():
    assert summed([], max) is None
    assert summed([None, None, None], max) is None
    assert summed(["0", None, "2", "3", None], lambda a, b: f"({a}{b})") == "(0(23))"


def test_a_term_that_comes_twice_counts_once():
    tree = TreeSum(2, lambda a, b: a + b)
    for index, value in ((1, "b"), (1, "c"), (0, "a"), (1, "d")):
        tree.put(index, value)
    assert tree.total == "ab"


def test_a_term_may_be_nothing():
    tree = TreeSum(3, lambda a, b: (a or 0) + (b or 0))
    for index, value in ((2, 5), (1, None), (0, None)):
        tree.put(index, value)
    assert tree.total == 5


def test_few_terms_wait():
    tree = TreeSum(64, added)
    most = 0
    for index in range(64):
        tree.put(index, {"x": np.array([1.0, index])})
        most = max(most, len(tree.waiting))
    assert most <= 7
    np.testing.assert_array_equal(tree.total["x"], [64.0, sum(range(64))])


def test_sums_without_all_terms_are_refused():
    tree = TreeSum(2, added)
    tree.put(1, 2.0)
    with pytest.raises(ValueError, match="1 of 2 terms"):
        _ = tree.total
    with pytest.raises(ValueError, match="one term at least"):
        TreeSum(0, added)
