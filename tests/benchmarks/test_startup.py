"""The runner of first fits, without fitting anything."""

import sys

import numpy as np
import pytest
from benchmarks.startup import __main__ as startup
from benchmarks.startup import commands, page, processes, worker


def turn(ours, theirs):
    return {
        "cavity": {"cpu_s": ours, "whole_process_cpu_s": 2.0 * ours, "programs": 7},
        "sklearn": {"cpu_s": theirs, "whole_process_cpu_s": 4.0 * theirs},
    }


def test_a_row_has_medians_and_ratios_of_each_turn():
    row = startup.row_of("fit", "cavity", [turn(1.0, 1.0), turn(4.0, 2.0), turn(3.0, 3.0)])
    assert (row["cpu_s"], row["least"], row["most"]) == (3.0, 1.0, 4.0)
    assert row["whole_process_cpu_s"] == 6.0
    assert row["ratio_to_scikit_learn"] == 0.5
    assert (row["programs"], row["operations"], row["repeats"]) == (7, "", 3)
    row = startup.row_of("fit", "cavity", [{"cavity": {"seconds": 2.0}}])
    assert (row["cpu_s"], row["seconds"], row["ratio_to_scikit_learn"]) == ("", 2.0, "")


def test_seconds_of_a_whole_process_are_those_of_its_work():
    code = "import time\nwhile time.process_time() < {}: pass\nprint(7)"
    short, long = (
        processes.run([sys.executable, "-c", code.format(seconds)], processes.plain(1))
        for seconds in (0.05, 0.6)
    )
    assert short.said == long.said == "7\n"
    assert long.cpu_s >= 0.59
    assert long.cpu_s > short.cpu_s
    with pytest.raises(RuntimeError, match="no such module"):
        processes.run([sys.executable, "-c", "raise OSError('no such module')"], {})


def test_parts_are_counted_by_the_library():
    class Programs:
        def begin(self):
            self.begun = True

        def end(self):
            return {"programs": 3 if self.begun else 0}

    parts = worker.Parts(Programs())
    with parts("fit"):
        sum(range(100_000))
    (found,) = parts.found
    assert (found["what"], found["programs"]) == ("fit", 3)
    assert found["seconds"] > 0.0


def test_tables_of_commands_have_their_missing_cells(tmp_path):
    commands.write_tables(tmp_path)
    latent = np.genfromtxt(tmp_path / "latent.csv", delimiter=",", skip_header=1)
    assert np.isnan(latent).sum() == np.isnan(commands.data.incomplete()).sum() > 0
    lines = [len((tmp_path / f"classes_{n}.csv").read_text().splitlines()) for n in (130, 36, 34)]
    assert lines == [131, 37, 35]


def test_every_row_has_words():
    words = {*page.FITS, *page.COMMANDS, *page.SESSIONS}
    assert {row["what"] for row in page.TABLE.rows()} <= words
    assert {*page.AIMS, *page.RATIOS, *commands.COMMANDS} <= words


def test_the_page_is_what_the_results_say():
    assert page.text() in page.PAGE.read_text()
