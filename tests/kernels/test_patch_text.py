"""Sums over patches as text: what is read, what is written, what is refused."""

import jax
import numpy as np
import pytest

from cavity.kernels import RBF, Matern32, Orbit, Patches, SumOver, Warps
from cavity.kernels.text_form import parse, text
from tests.kernels.test_text_form import structure

PLACED = "conv(rbf[pixels] * matern32[row,column], 3x2, image=6x4, positions)"
CANONICAL = [
    "conv(conv(rbf[0,1,2,3], 5x1, image=6x1), 2x2, image=6x4, positions)",
    "conv(rbf, 3x2, image=6x4)",
    "conv(rbf, 1x1, image=24x1)",
    PLACED,
    "0.5 * conv(rbf, 3x2, image=6x4, weights) + rbf",
    "conv(rbf, 3x2, image=6x4) * conv(linear[0,2] + white, 2x2, image=6x4, stride=2)",
    "conv((rbf + linear) * matern12, 2x2, image=4x3x2)",
    "conv(rbf[pixels], 2x2, image=4x3x2, stride=2, channels=pooled, positions, weights)",
    "conv(rbf, 2x2, image=4x3x2, channels=0) + conv(rbf, 2x2, image=4x3x2, channels=1)",
    "conv(fourier(rbf[1,0], 20) + rbf[0,row], 3x2, image=6x4, positions)",
    "conv(conv(rbf, 2x2, image=3x3), 3x3, image=6x4)",
]


@pytest.mark.parametrize("written", CANONICAL)
def test_writing_gives_back_what_was_read(written):
    kernel = parse(written, 24)
    assert text(kernel) == written
    assert structure(parse(text(kernel), 24)) == structure(kernel)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (" conv( rbf ,3 x 2,image = 6x4 ) ", "conv(rbf, 3x2, image=6x4)"),
        (
            "conv(rbf, 3x2, weights, positions, stride=1, channels=joint, image=6x4)",
            "conv(rbf, 3x2, image=6x4, positions, weights)",
        ),
        (
            "conv(rbf[0,1,2,3,4,5] * matern32[6,7], 3x2, image=6x4, positions)",
            PLACED,
        ),
        ("conv(rbf[pixels,row], 1x1, image=6x4, positions)", None),
        ("conv(rbf[pixels,column], 2x1, image=6x4, positions)", None),
    ],
)
def test_other_ways_of_writing(written, canonical):
    kernel = parse(written, 24)
    assert canonical is None or text(kernel) == canonical
    assert structure(parse(text(kernel), 24)) == structure(kernel)


def test_texts_are_the_kernels_that_python_builds():
    parts = Patches((6, 4), (3, 2), positions=True)
    base = RBF(1.0, np.ones(6)).on(*range(6)) * Matern32(1.0, np.ones(2)).on(6, 7)
    built, read = SumOver(parts, base), parse(PLACED, 24)
    assert structure(read) == structure(built)
    assert text(built) == PLACED
    pairs = zip(jax.tree.leaves(read), jax.tree.leaves(built), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    weighted = parse("conv(rbf, 3x2, image=6x4, stride=2, weights)", 24)
    assert isinstance(weighted, SumOver)
    np.testing.assert_array_equal(weighted.weights, np.ones(4))
    assert text(SumOver(Patches((6, 4), (3, 2), 2), RBF(), np.arange(4.0))) == (
        "conv(rbf, 3x2, image=6x4, stride=2, weights)"
    )


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("conv5", "conv is written conv\\(rbf, 5x5, image=28x28\\)"),
        ("conv3(rbf, 3x2, image=6x4)", "conv is written conv\\(rbf, 5x5, image=28x28\\)"),
        ("conv", "conv is written"),
        ("conv()", "conv is written"),
        ("conv(rbf)", "conv is written"),
        ("conv(rbf, 3x2, image=6x4", "conv is written"),
        ("conv(3x2, image=6x4)", "'image=6x4' is not the size of a patch; conv is written"),
        ("conv(rbf, 3, image=6x4)", "'3' is not the size of a patch"),
        ("conv(rbf, 3x2.5, image=6x4)", "'3x2.5' is not the size of a patch"),
        ("conv(rbf, 3x2)", "the size of an image is missing"),
        ("conv(rbf, 3x2, image=6)", "'image=6' is not understood"),
        ("conv(rbf, 3x2, image=6x4, position)", "'position' is not understood"),
        ("conv(rbf, 3x2, image=6x4, positions=1)", "'positions=1' is not understood"),
        ("conv(rbf, 3x2, image=6x4,)", "'' is not understood"),
        ("conv(rbf, 3x2, image=6x4, image=6x4)", "image is given twice"),
        ("conv(rbf, 3x2, image=6x5)", "6 x 5 are 30 columns, and the inputs have 24"),
        ("conv(rbf, 7x2, image=6x4)", "larger than the image"),
        ("conv(rbf, 3x2, image=6x4, stride=0)", "stride must be"),
        ("conv(rbf, 3x2, image=6x4, channels=1)", "0 to 0, given 1"),
        ("conv(2, 3x2, image=6x4)", "2 stands alone"),
        ("conv(, 3x2, image=6x4)", "a kernel's name.*found ','"),
        ("conv(rbf rbf, 3x2, image=6x4)", "expected \\+ or \\* or a comma, found 'rbf'"),
        ("conv(rbf[6], 3x2, image=6x4)", "no column '6'; columns are numbered 0 to 5"),
        ("conv(rbf[row], 3x2, image=6x4)", "no column 'row'; columns are numbered 0 to 5"),
        ("conv(rbf[rows], 3x2, image=6x4, positions)", "no column 'rows'; did you mean 'row'"),
        ("conv(rbf[pixels,0], 3x2, image=6x4)", "a column is given twice"),
        ("rbf[pixels]", "no column 'pixels'"),
        ("conv(rbf, 3x2, image=6x4)[0]", "found '\\[0\\]'"),
        ("cnv(rbf, 3x2, image=6x4)", "unknown kernel 'cnv'; did you mean 'conv'"),
    ],
)
def test_what_cannot_be_read_is_refused(written, message):
    with pytest.raises(ValueError, match=f"cannot read the kernel .*{message}"):
        parse(written, 24)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (SumOver(Orbit.flips((6, 4)), RBF()), "given Orbit of 4 permutations, .* in Python"),
        (SumOver(Warps((6, 4), shift=1.0), RBF()), "given 16 Warps of an image .* in Python"),
        (SumOver(Patches((6, 4)[::-1], (2, 2)), RBF()).on(*range(24)), "leave .on\\(...\\) out"),
    ],
)
def test_other_sums_over_parts_have_no_text(kernel, message):
    with pytest.raises(ValueError, match=message):
        text(0.5 * kernel + RBF())
