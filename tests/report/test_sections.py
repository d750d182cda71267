"""Sections of a page: what each part looks like in the one template."""

import re

import pytest

from cavity.report.rendering import write_page
from cavity.report.sections import (
    Bullets,
    Code,
    Head,
    Heading,
    Paragraph,
    Picture,
    Section,
    Table,
    counted,
    figure_names,
    number,
    percent,
)
from tests.report.test_page import Page

RECORD = {"converged": True, "message": "done"}
PICTURE = Picture("fan", "The fan", "A fan.", "Read it so.", "<svg/>")


@pytest.fixture
def page_of(tmp_path):
    """The page of some sections; with parts alone, of one section of these."""

    def page_of(*parts, sections=None, head=None, record=RECORD):
        head = Head("A title", "It is on this.", [("rows", "40")], []) if head is None else head
        path = tmp_path / "page.html"
        write_page(path, record, head, [Section("One", parts)] if sections is None else sections)
        return Page(path)

    return page_of


def main(page):
    """What stands between head and footer, on one line."""
    inside = page.source.split("<main>")[1].split("</main>")[0]
    return re.sub(r">\s+<", "><", " ".join(inside.split()))


def test_sections_without_anything_to_say_are_left_out(page_of):
    page = page_of(sections=[None, Section("Two", [Paragraph("Here.")]), None])
    assert main(page).strip() == "<h2>Two</h2><p>Here.</p>"
    assert figure_names([None, Section("Two", [PICTURE, Heading("More"), PICTURE])]) == [
        "fan",
        "fan",
    ]


def test_the_head(page_of):
    lead = ("A model, ", Code("<m>.cavity"), ".")
    page = page_of(head=Head("<b>", lead, [("share", "5 %")], [Paragraph("Mind this.", "note")]))
    assert "<title>&lt;b&gt;</title>" in page.source
    assert "<code>&lt;m&gt;.cavity</code>." in page.source
    assert "<dt>share</dt><dd>5\N{NO-BREAK SPACE}%</dd>" in page.source
    assert '<p class="note">Mind this.</p>' in page.source


@pytest.mark.parametrize(
    ("sites", "style", "begins"),
    [
        (True, "small", "Learning ended before the optimum."),
        (False, "note", "<strong>Inference did not converge.</strong>"),
    ],
)
def test_convergence_is_said_on_every_page(page_of, sites, style, begins):
    record = {"converged": False, "message": "too few", "sites": {"converged": sites}}
    source = page_of(record=record).source
    assert f'<p class="{style}">{begins}' in source
    assert "How it ended: too few." in source
    assert "How it ended" not in page_of().source


def test_parts_in_their_order(page_of):
    page = page_of(Heading("A <x>"), Bullets(["50 % of it"]), Paragraph("Small.", "small"))
    assert "<h3>A &lt;x&gt;</h3><ul><li>50 % of it</li></ul>" in main(page)
    assert "50\N{NO-BREAK SPACE}%" in page.source
    assert main(page).strip().endswith('<p class="small">Small.</p>')


def test_tables(page_of):
    rows = [("a", 1234, 0.123456, "x"), (Code("b"), None, float("nan"), ("of ", Code("c")))]
    page = page_of(Table(("name", ">count", ">value", "~of"), rows))
    found = main(page)
    assert '<th scope="col">name</th><th scope="col" class="n">count</th>' in found
    assert (
        '<tr><th scope="row">a</th><td class="n">1,234</td><td class="n">0.1235</td>'
        '<td class="name">x</td></tr>' in found
    )
    dash = '<td class="n">–</td>'
    last = '<td class="name">of <code>c</code></td></tr>'
    assert f'<tr><th scope="row"><code>b</code></th>{dash}{dash}{last}' in found
    assert "<details>" not in found


def test_a_table_of_numbers_alone_has_no_names_of_rows(page_of):
    assert '<tr><td class="n">7</td>' in main(page_of(Table((">row", ">observed"), [("7", 1.0)])))


def test_the_last_cell_of_a_short_row_spans_the_others(page_of):
    table = Table(("column", "kind", ">mean", ""), [("a", "categorical", "3 categories")])
    assert '<td colspan="2">3 categories</td></tr>' in main(page_of(table))


def test_facts_have_no_head_and_long_tables_are_folded(page_of):
    rows = [("kernel", Code("rbf")), ("power", "0.5")]
    facts = main(page_of(Table((), rows)))
    assert '<table class="facts"><tbody><tr><th scope="row">kernel</th>' in facts
    assert "<thead>" not in facts
    folded = main(page_of(Table((), rows, "All 2 facts", 1)))
    assert "<details><summary>All 2 facts</summary>" in folded


def test_a_picture_has_a_heading_unless_it_is_that_of_its_section(page_of):
    assert "<h3>The fan</h3><figure>" in main(page_of(PICTURE))
    alone = main(page_of(sections=[Section("The fan", [PICTURE])]))
    assert "<h2>The fan</h2><figure>" in alone
    assert 'alt="A fan."' in alone
    assert "<figcaption>Read it so.</figcaption>" in alone


def test_numbers_in_words():
    assert [number(x) for x in (None, 1234, 0.123456, "2020")] == ["–", "1,234", "0.1235", "2020"]
    assert [counted(n, "row") for n in (1, 2, 2000)] == ["1 row", "2 rows", "2,000 rows"]
    assert [percent(x) for x in (0.5, float("nan"))] == ["50 %", "–"]
    assert percent(0.123, 1) == "12.3 %"
