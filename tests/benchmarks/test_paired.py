"""The comparison of two checkouts: who is asked what, and what is made of the answers."""

import functools
import operator
import sys
import types

import jax
import pytest
from benchmarks import results
from benchmarks.paired import __main__ as paired
from benchmarks.paired import worker

# Answers as the real script does, of rows that take the seconds in a list, and fails with text.
SCRIPT = """
import json, os, sys
rows = {rows}
sizes = {{name: size for name, (size, _) in rows.items()}}
paths = os.environ["PYTHONPATH"].split(os.pathsep)
print(json.dumps({{"version": "1", "source": paths[0] + "/cavity", "rows": sizes}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    answer = {{}}
    if asked["do"] != "drop":
        seconds = rows[asked["name"]][1]
        answer = {{"failed": seconds}}
        if not isinstance(seconds, str):
            answer = {{"seconds": seconds[0] if asked["do"] == "warm" else seconds.pop(0)}}
            answer["compiled"] = int(answer["seconds"] > 100.0)
    print(json.dumps(answer), flush=True)
"""


def checkout(folder, rows):
    script = folder / paired.SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT.format(rows=rows))
    return folder


@pytest.fixture
def compared(tmp_path, monkeypatch, capsys):
    """What is printed, and the table, by rows of before and after."""
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")

    def run(before, after, *options):
        other = checkout(tmp_path / "other", before)
        monkeypatch.setattr(paired, "ROOT", checkout(tmp_path / "this", after))
        paired.main([str(other), "--repeats", "3", *options])
        return capsys.readouterr().out, results.Table("paired.csv", ()).rows()

    return run


def test_ratios_of_rows_that_both_have(compared):
    before = {"large": (600, [1.0, 2.0, 1.0]), "small": (500, [1.0, 1.0, 1.0])}
    before |= {"gone": (1, [1.0]), "broken": (1, [1.0] * 3)}
    after = {"large": (600, [1.0, 2.1, 1.2]), "small": (500, [2.0, 2.0, 2.0])}
    after |= {"new": (1, [1.0]), "broken": (1, "ValueError: no")}
    said, table = compared(before, after)
    assert [(row["row"], row["ratio"], row["rows"]) for row in table] == [
        ("large", "1.05", "600"),
        ("small", "2", "500"),
    ]
    assert (table[0]["before"], table[0]["after"]) == ("other", "this")
    lines = {line.split()[0]: line for line in said.splitlines()}
    assert lines["gone"].endswith("other")
    assert lines["new"].endswith("this")
    assert "ValueError: no" in lines["broken"]
    assert "median of 2 ratios: 1.525, at most 1.03: False" in said
    assert "more than 512 rows: large, 1.050" in said
    assert "above 1.10, more than 512 rows: none" in said
    assert "above 1.10, at most 512 rows: small 2.000" in said


def test_words_select_and_turns_that_compile_do_not_count(compared):
    before = {"a row": (600, [1.0, 1.0, 1.0]), "other": (600, [1.0])}
    after = {"a row": (600, [1.02, 101.0, 1.02]), "other": (600, [1.0])}
    said, table = compared(before, after, "--only", "row", "line")
    assert [(row["row"], row["ratio"], row["compiling"]) for row in table] == [
        ("a row", "1.02", "1")
    ]
    assert "1.020, at most 1.03: True" in said
    assert "1 turns compile" in said


def test_a_process_that_ends_says_why(compared):
    with pytest.raises(SystemExit, match="TypeError"):
        compared({"a": (1, [1.0])}, {"a": (1, None)})


def test_a_checkout_is_measured_with_its_own_source(tmp_path):
    folder = checkout(tmp_path / "other", {})
    script = folder / paired.SCRIPT
    script.write_text(script.read_text().replace("paths[0]", "'elsewhere'"))
    with pytest.raises(SystemExit, match="elsewhere"):
        paired.started(folder, str(tmp_path))


def test_calls_go_on_until_two_compile_nothing():
    calls = []

    def work():
        calls.append(1)
        return jax.jit(lambda x: x + 1.0)(1.0) if len(calls) in (1, 3) else 0.0

    asked = worker.Worker({"it": worker.Row(1, lambda: work)})
    assert asked.answer("warm", name="it", least=0)["calls"] == 5
    found = asked.answer("call", name="it", times=2)
    assert (len(calls), found["compiled"]) == (7, 0)
    assert asked.answer("warm", name="it", least=9)["calls"] == 9
    asked.drop()
    assert "KeyError" in asked.answer("call", name="it", times=1)["failed"]


def test_calls_that_always_compile_come_to_an_end():
    row = worker.Row(1, lambda: lambda: jax.jit(lambda x: x + 1.0)(1.0))
    found = worker.Worker({"it": row}).answer("warm", name="it", least=0)
    assert found["calls"] == worker.WARM
    assert found["compiled"] > 0


@pytest.mark.parametrize(("place", "answer"), [(0, "a"), (1, "b"), (2, "cc"), (3, "d")])
def test_functions_that_a_benchmark_times(place, answer, monkeypatch):
    """Those that are timed alone, together and in a list; loops change what they refer to."""
    module = types.ModuleType("a_benchmark")
    monkeypatch.setitem(sys.modules, "a_benchmark", module)
    module.timed = lambda *given: pytest.fail("nothing is to be timed")

    def run(its):
        for letter in "ab":
            assert its.timed(lambda: letter, 3) == 1.0  # noqa: B023
        assert its.timed(lambda: "cc", lambda: "d") == [1.0, 1.0]
        assert its.timed([lambda: "e"]) == [1.0]

    assert worker.asked("a_benchmark", "timed", place, run)() == answer
    with pytest.raises(LookupError, match="5 functions"):
        worker.asked("a_benchmark", "timed", 5, run)


def test_names_of_rows_are_told_apart_and_say_the_rows():
    groups = [group() for group in worker.GROUPS]
    rows = functools.reduce(operator.or_, groups)
    assert len(rows) == sum(map(len, groups))
    assert all(row.rows > 0 for row in rows.values())
    for name, row in rows.items():
        sizes = [int(word[2:]) for word in name.split() if word.startswith("N=")]
        assert sizes in ([], [row.rows])
