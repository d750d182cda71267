"""The figures of the documentation."""

import re

import pytest
from benchmarks import pages

GENERATED = re.compile(r"<!-- from here on: .*?<!-- (up to here|end of [^>]*) -->", re.DOTALL)


def test_figures_are_those_of_the_csv_files_and_every_table_of_benchmarks_is_marked():
    assert not [page.name for page in pages.pages() if pages.different(page)]
    for page in sorted((pages.ROOT / "docs" / "benchmarks").glob("*.md")):
        rest = GENERATED.sub("", pages.PLACE.sub("", page.read_text()))
        assert "\n|" not in rest, f"a table in {page.name} without a query"


def test_a_table_and_a_figure_are_written_from_csv_files(tmp_path):
    (tmp_path / "fits.csv").write_text("set,error,ended\na,1,True\nb,-0.001,False\na,2,\nb,nan,True\n")
    known = pages.results(tmp_path)
    query = "SELECT [set], f(mean(error), '.2f') AS error, sum(ended) AS n FROM fits GROUP BY [set]"
    shown = "\n| set | error | n |\n| --- | --- | --- |\n| a | 1.50 | 1 |\n| b | 0.00 | 1 |\n"
    assert pages.figures(query, True, known) == shown
    assert pages.figures("SELECT f(se(error), '.0%') FROM fits", False, known) == "58 %"
    assert pages.figures("SELECT median(error) FROM fits WHERE error > 5", True, known)[-6:] == "\n|  |\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a <!-- csv: SELECT rmse FROM anchors -->1<!-- end -->", "7 rows"),
        ("a <!-- csv: SELECT loss FROM anchors -->1<!-- end -->", "no such column: loss"),
        ("- <!-- csv: SELECT 1 -->1<!-- end --> of 2", "at the beginning of a line"),
        ("a <!-- csv: SELECT 1 -->\n<!-- end -->", "with a line break"),
    ],
)
def test_what_cannot_be_a_figure_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        pages.renewed(text)
