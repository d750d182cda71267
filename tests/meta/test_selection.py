"""The sample of `make test` and the tenths of the other tests are all tests, once each."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import selection

KERNELS, POWERS = ("rbf", "linear", "white"), ("0", "0.5", "1")


class Item:
    """As much of a collected test as the selection asks for."""

    def __init__(self, nodeid, **marks):
        self.nodeid, self.marks = nodeid, marks

    def get_closest_marker(self, name):
        return SimpleNamespace(args=self.marks[name]) if name in self.marks else None


@pytest.fixture
def items():
    grid = [f"a.py::test_law[{k}-{p}]" for k in KERNELS for p in POWERS]
    return [
        *(Item(name, sampled=(3,)) for name in grid),
        *(Item(f"a.py::test_long[{i}]", slow=()) for i in range(30)),
        *(Item(f"b.py::test_short[{i}]") for i in range(5)),
    ]


def chosen(items, sample, tenth):
    """Names of the tests that run with these options."""
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    options = {"sample": sample, "tenth": tenth}
    left = list(items)
    config = SimpleNamespace(getoption=options.__getitem__, hook=hook)
    selection.pytest_collection_modifyitems(config, left)
    return [item.nodeid for item in left]


def test_without_options_every_test_runs(items):
    assert chosen(items, False, None) == [item.nodeid for item in items]


def test_the_sample_and_ten_tenths_have_every_test_once(items):
    tenths = [name for k in range(10) for name in chosen(items, False, k)]
    assert sorted(chosen(items, True, None) + tenths) == sorted(item.nodeid for item in items)


def test_both_in_one_session(items):
    apart = chosen(items, True, None) + chosen(items, False, 3)
    assert sorted(chosen(items, True, 3)) == sorted(apart)


def test_the_sample_leaves_slow_tests_out_and_spreads_a_law_over_its_settings(items):
    inside = chosen(items, True, None)
    assert not any("test_long" in name for name in inside)
    assert sum("test_short" in name for name in inside) == 5
    drawn = [name for name in inside if "test_law" in name]
    assert len(drawn) == 3
    for setting in (*KERNELS, *POWERS):
        assert any(setting in name.strip("]").split("[")[1].split("-") for name in drawn)


def test_named_cases_of_a_law_are_inside():
    names = [f"a.py::test_law[{k}-{p}]" for k in KERNELS for p in POWERS]
    for name in names:
        case = name.partition("[")[2].rstrip("]")
        items = [Item(each, sampled=(1, case)) for each in names]
        assert chosen(items, True, None) == [name]


def test_tests_outside_are_tests_that_there_are():
    root = Path(__file__).parents[2]
    for name in selection.outside():
        file, *classes, test = name.partition("[")[0].split("::")
        text = (root / file).read_text(encoding="utf-8")
        assert f"def {test}(" in text, name
        assert all(f"class {each}" in text for each in classes), name


def test_a_test_that_is_listed_is_outside(monkeypatch):
    items = [Item("a.py::test_dear"), Item("a.py::test_cheap")]
    monkeypatch.setattr(selection, "outside", lambda: {"a.py::test_dear": 2.0})
    assert chosen(items, True, None) == ["a.py::test_cheap"]


def test_what_is_no_tenth_is_refused():
    for wrong in (-1, 10):
        with pytest.raises(pytest.UsageError, match="from 0 to 9"):
            selection.check_tenth(SimpleNamespace(getoption=lambda _, wrong=wrong: wrong))
