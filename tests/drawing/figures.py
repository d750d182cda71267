"""Figures on which a test draws."""

import xml.etree.ElementTree as ElementTree

import numpy as np

from cavity.report.svg import picture

SVG = "{http://www.w3.org/2000/svg}"


def axes_of(draw, **settings):
    """The axes on which a function drew, once the figure has been made a picture, and that."""
    kept = []

    def on_figure(figure):
        kept.append(figure.subplots())
        draw(kept[0])

    svg = picture(on_figure, **settings)
    ElementTree.fromstring(svg)
    return kept[0], svg


def texts(svg):
    """The texts in a picture."""
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def quantiles(mean, std=1.0):
    """Quantiles of normal distributions at the probabilities of bands."""
    return mean[:, None] + std * np.array([-1.96, -0.67, 0.67, 1.96])
