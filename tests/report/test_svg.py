"""Files of pictures: small, the same under any settings, and with nothing from elsewhere."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest

from cavity import drawing
from cavity.report.svg import picture
from tests.drawing.figures import axes_of, quantiles, texts


def test_a_picture_leaves_no_trace():
    code = """
import sys, matplotlib
from cavity.report.svg import picture
before = dict(matplotlib.rcParams)
picture(lambda figure: figure.subplots().plot([1, 2]))
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_callers_style_plays_no_part():
    def draw(figure):
        figure.subplots().plot([1, 2], label="a")

    usual = picture(draw)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "axes.grid": True}):
        assert picture(draw) == usual


def test_nothing_in_the_file_points_elsewhere():
    _, svg = axes_of(lambda axes: drawing.data(axes, np.arange(5.0), np.arange(5.0)))
    root = ElementTree.fromstring(svg)
    addresses = [v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert svg.count("http") == svg.count("http://www.w3.org/")  # the names of XML itself


def test_dark_surroundings_change_the_colours():
    _, svg = axes_of(lambda axes: axes.plot([1, 2], color=drawing.MODEL))
    assert "prefers-color-scheme:dark" in svg
    assert svg.count(drawing.MODEL) == 1  # where the variable is set
    assert svg.count(drawing.INK) == 1


def test_shortening_leaves_names_alone():
    name = 'w 1.23456 style="fill: red" <use style="x">'
    _, svg = axes_of(lambda axes: axes.set_xlabel(drawing.label(name, 60)))
    assert name in texts(svg)


@pytest.mark.parametrize("name", ["a $x_1$ b$", "<script>alert(1)</script>", "a & b", "数 🦊"])
def test_names_are_shown_as_they_are(name):
    x = np.arange(4.0)
    _, svg = axes_of(lambda axes: (drawing.bands(axes, x, x, quantiles(x)), axes.set_xlabel(name)))
    assert name in texts(svg)
    assert "<script" not in svg
