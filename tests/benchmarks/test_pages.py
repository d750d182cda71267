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
    rows = ("set,error,ended", "a,1,True", "b,-0.001,False", "a,2,", "b,nan,True")
    (tmp_path / "fits.csv").write_text("\n".join(rows) + "\n")
    known = pages.results(tmp_path)
    query = "SELECT [set], f(mean(error), '.2f') AS m, sum(ended) AS n FROM fits GROUP BY [set]"
    shown = "| set | m | n |\n| --- | --- | --- |\n| a | 1.50 | 1 |\n| b | 0.00 | 1 |"
    assert pages.table(query, known) == shown
    assert pages.figure("SELECT f(se(error), '.0%') FROM fits", known) == "58 %"
    assert pages.figure("SELECT median(error) FROM fits WHERE error > 5", known) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a <!-- csv: SELECT rmse FROM anchors -->1<!-- end -->", "7 rows of 1 columns"),
        ("a <!-- csv: SELECT loss FROM anchors -->1<!-- end -->", "no such column: loss"),
        ("a <!-- csv: SELECT 1 WHERE 0 -->1<!-- end -->", "no rows"),
        ("- <!-- csv: SELECT 1 -->1<!-- end --> of 2", "at the beginning of a line"),
        ("a <!-- csv: SELECT 1 -->\n<!-- end -->", "a table within a line"),
    ],
)
def test_what_cannot_be_a_figure_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        pages.renewed(text)
