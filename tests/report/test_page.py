"""The report: one page with everything in it, for any table."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

from cavity import kernels
from cavity.persistence.errors import DataError
from cavity.report import page as report
from cavity.report.convergence import unconverged
from cavity.report.metric_descriptions import METRICS
from cavity.report.sections import number
from cavity.tables.schema import encode
from tests.report.fitting import fitted_to

VOID = {"meta", "img", "br", "link", "input"}
QUALITY = ["calibration", "predicted_against_observed", "residuals"]
NASTY = "a <script>alert('x')</script> & \"$b_1$\" 数"


class Page(HTMLParser):
    """A page's elements and text; every element that opens must close."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.open, self.elements, self.words = [], [], []
        self.feed(self.source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def one_input(count=40):
    x = np.linspace(0.0, 6.0, count)
    return pl.DataFrame({"x": x, "y": np.sin(x) + 0.1 * np.cos(37 * x)})


def several_inputs(rng, count=60):
    a, b = rng.normal(size=(2, count))
    colour = rng.choice(["red", "green", "blue"], count).tolist()
    opened = rng.random(count) < 0.5
    y = np.sin(2 * a) + opened
    z = np.where(np.array(colour) == "red", 2.0, 0.0)
    inputs = {NASTY: a, "b": b, "colour": colour, "open": opened, "same": np.ones(count)}
    return pl.DataFrame(inputs | {"y": y, "z": z})


@pytest.fixture
def written(tmp_path):
    def written(fitted, encoded):
        path = tmp_path / "report.html"
        names = report.write_report(path, fitted, encoded)
        page = Page(path)
        images = page.all("img")
        assert len(images) == len(names)
        assert all(image["alt"] for image in images)
        assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in images)
        assert all(len(image["src"]) < 200_000 for image in images)
        assert not page.all("script")
        assert "http:" not in page.source
        assert "https:" not in page.source
        return names, page

    return written


@pytest.mark.slow
def test_one_numeric_input(written):
    names, page = written(*fitted_to(one_input(), ["y"], n_inducing=7))
    assert names == ["fit", *QUALITY, "point_gains"]
    assert "mark the 7 inducing points" in page.text
    assert "40 rows of this table with 1 input column;" in page.text
    assert "Outlying rows" not in page.text


@pytest.mark.slow
def test_numbers_are_those_of_evaluate_and_show(written):
    fitted, encoded = fitted_to(one_input(), ["y"])
    _, page = written(fitted, encoded)
    for name, value in fitted.metrics(encoded).items():
        assert f"{name} {number(value)} {METRICS[name]}" in page.text
    assert f"{fitted.record['log_evidence']:.8g} nats" in page.text
    assert "none: the full Gaussian process" in page.text
    assert "kernel.lengthscale x 1 column" in page.text


@pytest.mark.slow
def test_several_inputs_and_targets(written, rng):
    names, page = written(*fitted_to(several_inputs(rng), ["y", "z"], "rbf + linear"))
    each = [*QUALITY, "slices"]
    assert names == [f"{n}_y" for n in each] + [f"{n}_z" for n in each] + ["relevance"]
    assert "Predictions of y" in page.text
    assert "Predictions of z" in page.text
    assert NASTY in page.text
    assert "3 categories:" in page.text
    assert "Each panel is a part of the kernel" in page.text
    order = [alt for image in page.all("img") if "along each of" in (alt := image["alt"])]
    assert re.search(r"of y along each of: (a <script|open)", order[0])
    assert "of z along each of: colour" in order[1]
    assert "same" not in order[0]


@pytest.mark.slow
def test_a_kernel_without_relevance(written, rng):
    table = several_inputs(rng).drop("z")
    names, page = written(*fitted_to(table, ["y"], kernels.RBF()))
    assert "relevance" not in names
    assert "The kernel has no lengthscale of its own for each column" in page.text


def test_a_table_without_targets(written, rng):
    table = several_inputs(rng)
    fitted, _ = fitted_to(table, ["y", "z"])
    encoded = encode(table.drop("y", "z"), fitted.schema, need_targets=False)
    names, page = written(fitted, encoded)
    assert names == ["slices_y", "slices_z", "relevance"]
    assert "What the model says of y" in page.text
    assert "read without targets" in page.text


def test_one_row(written, rng):
    table = several_inputs(rng)
    fitted, _ = fitted_to(table, ["y"])
    names, page = written(fitted, encode(table.head(1), fitted.schema))
    assert names == ["predicted_against_observed"]
    assert "at least two" in page.text
    assert "undefined: the targets are constant" in page.text


def test_a_model_of_one_row(written):
    names, _ = written(*fitted_to(one_input().head(1), ["y"]))
    assert names == ["fit", "predicted_against_observed"]


def test_constant_targets_of_odd_scale(written):
    table = one_input().with_columns(y=pl.lit(1e9))
    names, _ = written(*fitted_to(table, ["y"]))
    assert names == ["fit", *QUALITY]


@pytest.mark.slow
def test_many_columns_with_long_names(written, rng):
    names = [f"column number {i} of very, very, very, very many" for i in range(200)]
    X = rng.normal(size=(30, 200))
    table = pl.DataFrame(dict(zip(names, X.T, strict=True)) | {"y": X[:, 7]})
    found, page = written(*fitted_to(table, ["y"], kernels.RBF(1.0, np.full(200, 20.0))))
    assert found == [*QUALITY, "slices", "relevance"]
    assert "All 201 columns" in page.text
    assert "All 202 values" in page.text
    assert "The 30 longest bars are shown." in page.text
    assert "; 8 of 200 are shown." in page.text


def test_many_rows(written, rng):
    x = rng.uniform(0.0, 6.0, 5_000)
    table = pl.DataFrame({"x": x, "y": np.sin(x)})
    fitted, _ = fitted_to(table.head(50), ["y"])
    _, page = written(fitted, encode(table, fitted.schema))
    assert "1,000 of 5,000 rows are drawn, chosen at random" in page.text
    assert "the more of the 5,000 rows" in page.text


@pytest.mark.slow
def test_known_noise(written, rng):
    table = one_input().with_columns(v=pl.Series(rng.uniform(0.01, 0.1, 40)))
    names, page = written(*fitted_to(table, ["y"], noise_column="v"))
    assert names == ["fit", *QUALITY]
    assert "noise variance of each row is known" in page.text
    assert "v noise variance numeric" in page.text
    assert "likelihood.variance" not in page.text


@pytest.mark.slow
def test_what_a_reader_must_hear(written):
    table = one_input().with_columns(c=pl.Series(["a", "b"] * 20))
    fitted, _ = fitted_to(table, ["y"])
    fitted.record.update(converged=False, message="the limit of iterations")
    odd = table.with_columns(c=pl.Series(["new"] + ["a", "b"] * 19 + [None]))
    _, page = written(fitted, encode(odd, fitted.schema, drop_missing=True))
    assert "Learning ended before the optimum. Inference at the parameters" in page.text
    assert "How it ended: the limit of iterations." in page.text
    assert "1 of 40 rows holds categories" in page.text
    assert "1 more has missing cells and was left out" in page.text


@pytest.mark.parametrize(
    ("record", "title", "serious"),
    [
        ({"sites": {"converged": False}}, "Inference did not converge", True),
        ({"sites": {"converged": True}, "mcmc": {}}, "The draws did not converge", True),
        ({"sites": {"converged": True}}, "Learning ended before the optimum", False),
    ],
)
def test_what_a_fit_without_convergence_means(record, title, serious):
    """Only doubts about the predictions themselves are loud."""
    problem = unconverged(record | {"converged": False})
    assert problem.title.startswith(title)
    assert problem.serious == serious
    assert unconverged(record | {"converged": True}) is None


def test_a_report_that_cannot_be_written(tmp_path, monkeypatch):
    fitted, encoded = fitted_to(one_input(), ["y"])
    with pytest.raises(DataError, match="there is no folder") as caught:
        report.write_report(tmp_path / "no" / "report.html", fitted, encoded)
    assert caught.value.kind == "io"
    path = tmp_path / "report.html"
    path.write_text("before")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(DataError, match="no space left"):
        report.write_report(path, fitted, encoded)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


# ------------------------------------------------------------------------------- browser

CHECK = """<script>
addEventListener("load", () => {
  const sizes = [...document.images].map(i => i.complete ? i.naturalWidth : 0);
  const wide = document.documentElement.scrollWidth - innerWidth;
  document.body.dataset.found = JSON.stringify({sizes, wide});
});
</script>"""


@pytest.fixture
def browse(tmp_path):
    """Opens a page in headless Chromium; gives its final text and what the browser logged."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if browser is None:
        pytest.skip("no chromium on this machine to render the page with")
    quiet = ["no-first-run", "disable-background-networking", "disable-component-update"]
    quiet += ["disable-gpu", "disable-quic", "disable-sync", "no-sandbox"]

    def browse(path):
        options = [f"--{name}" for name in ("headless", *quiet, "dump-dom")]
        options += [f"--user-data-dir={tmp_path / path.stem}", "--window-size=1200,6000"]
        options += ["--enable-logging=stderr", "--v=0"]
        run = subprocess.run(
            [browser, *options, path.as_uri()], capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]

    return browse


@pytest.mark.browser
def test_a_browser_shows_every_picture_and_complains_of_nothing(tmp_path, browse, rng):
    path, copy = tmp_path / "report.html", tmp_path / "copy.html"
    names = report.write_report(path, *fitted_to(several_inputs(rng), ["y", "z"]))
    dom, log = browse(path)
    assert not log
    assert "Report on y, z" in dom

    policy = re.compile('<meta http-equiv="Content-Security-Policy"[^>]*>')
    assert policy.search(path.read_text())
    copy.write_text(policy.sub(CHECK, path.read_text()))
    dom, log = browse(copy)
    assert not log
    found = re.search(r'data-found="([^"]*)"', dom)[1].replace("&quot;", '"')
    sizes, wide = re.fullmatch(r'{"sizes":\[([\d,]*)\],"wide":(-?\d+)}', found).groups()
    assert len(sizes.split(",")) == len(names)
    assert all(int(size) > 300 for size in sizes.split(","))
    assert int(wide) <= 0


@pytest.mark.browser
def test_the_browser_check_notices_a_broken_picture(tmp_path, browse):
    path = tmp_path / "broken.html"
    path.write_text(f'<img src="data:image/svg+xml;base64,AAAA">{CHECK}<script>nope()</script>')
    dom, log = browse(path)
    assert "[0]" in dom
    assert log
