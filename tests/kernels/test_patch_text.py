"""Sums over patches as text: what is read, what is written, what is refused."""

import jax
import numpy as np
import pytest

from cavity.kernels import RBF, Matern32, Orbit, Patches, SumOver, Warps
from cavity.kernels.text_form import parse, read
from cavity.kernels.text_writing import text
from tests.kernels.test_text_form import structure

PLACED = "conv(rbf[pixels] * matern32[row,column], (3, 2), image=(6, 4), positions=True)"
CANONICAL = [
    "conv(conv(rbf[0,1,2,3], (5, 1), image=(6, 1)), (2, 2), image=(6, 4), positions=True)",
    "conv(rbf, (3, 2), image=(6, 4))",
    "conv(rbf, (1, 1), image=(24, 1))",
    PLACED,
    "0.5 * conv(rbf(lengthscale=2), (3, 2), image=(6, 4), weights=True) + rbf",
    "conv(rbf, (5, 3), image=(6, 4), weights=(0.0, 1.0, 2.0, 0.30000000000000004))",
    "conv(rbf, (3, 2), image=(6, 4)) * conv(linear[0,2] + white, (2, 2), image=(6, 4), stride=2)",
    "conv((rbf + linear) * matern12, (2, 2), image=(4, 3, 2))",
    'conv(rbf[pixels], (2, 2), image=(4, 3, 2), stride=2, channels="pooled", positions=True, '
    "weights=True)",
    "conv(rbf, (2, 2), image=(4, 3, 2), channels=0) + conv(rbf, (2, 2), image=(4, 3, 2), "
    "channels=1)",
    "conv(fourier(rbf[1,0], 20) + rbf[0,row], (3, 2), image=(6, 4), positions=True)",
    "conv(conv(rbf, (2, 2), image=(3, 3)), (3, 3), image=(6, 4))",
]


@pytest.mark.parametrize("written", CANONICAL)
def test_writing_gives_back_what_was_read(written):
    kernel = parse(written, 24)
    assert text(kernel) == written
    assert structure(parse(text(kernel), 24)) == structure(kernel)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (" conv( rbf ,(3 , 2),image = (6,4) ) ", "conv(rbf, (3, 2), image=(6, 4))"),
        (
            "conv(rbf, (3, 2), weights=True, positions=True, stride=1, channels='joint', "
            "image=(6, 4))",
            "conv(rbf, (3, 2), image=(6, 4), positions=True, weights=True)",
        ),
        (
            "conv(rbf[0,1,2,3,4,5] * matern32[6,7], (3, 2), image=(6, 4), positions=True)",
            PLACED,
        ),
        ("conv(rbf[pixels,row], (1, 1), image=(6, 4), positions=True)", None),
        ("conv(rbf[pixels,column], (2, 1), image=(6, 4), positions=True)", None),
    ],
)
def test_other_ways_of_writing(written, canonical):
    kernel = parse(written, 24)
    assert canonical is None or text(kernel) == canonical
    assert structure(parse(text(kernel), 24)) == structure(kernel)


def test_texts_are_the_kernels_that_python_builds():
    parts = Patches((6, 4), (3, 2), positions=True)
    base = RBF(1.0, np.ones(6)).on(*range(6)) * Matern32(1.0, np.ones(2)).on(6, 7)
    built, found = SumOver(parts, base), parse(PLACED, 24)
    assert structure(found) == structure(built)
    assert text(built) == PLACED
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(built), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    weighted = parse("conv(rbf, (3, 2), image=(6, 4), stride=2, weights=True)", 24)
    assert isinstance(weighted, SumOver)
    np.testing.assert_array_equal(weighted.weights, np.ones(4))
    several = SumOver(Patches((6, 4), (3, 2), 2), RBF(), np.arange(4.0))
    assert text(several, values=False) == text(weighted)


def test_values_in_patches_have_dotted_names():
    given = "conv(rbf(lengthscale=2, fixed=True), (3, 2), image=(6, 4)) + linear(variance=3)"
    found = read(given, 24)
    assert found.given == ("first.base.lengthscale", "second.variance")
    assert found.fixed == ("first.base.lengthscale",)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("conv5", "conv is written conv\\(rbf, \\(5, 5\\), image=\\(28, 28\\)\\)"),
        ("conv3(rbf, (3, 2), image=(6, 4))", "conv is written conv\\(rbf"),
        ("conv", "conv is written"),
        ("conv()", "conv is written"),
        ("conv(rbf)", "conv is written"),
        (
            "conv(rbf[pixels], 3x2, image=6x4x1, positions)",
            "write conv\\(rbf\\[pixels\\], \\(3, 2\\), image=\\(6, 4, 1\\), positions=True\\)$",
        ),
        (
            "conv(rbf, 3x2, image=6x4x1, channels=pooled)",
            'write conv\\(rbf, \\(3, 2\\), image=\\(6, 4, 1\\), channels="pooled"\\)$',
        ),
        ("conv((3, 2), image=(6, 4))", "conv is written"),
        ("conv(rbf, 3, image=(6, 4))", "3"),
        ("conv(rbf, (3, 2.5), image=(6, 4))", "2.5"),
        ("conv(rbf, x, image=(6, 4))", "'x' is no value of the size of a patch"),
        ("conv(rbf, (3, 2))", "the size of an image is missing"),
        ("conv(rbf, (3, 2), image=6)", "6"),
        ("conv(rbf, (3, 2), image=(6, 4), position=True)", "'position=True' is not understood"),
        ("conv(rbf, (3, 2), image=(6, 4), positions=1)", "'positions=1' is not understood"),
        ("conv(rbf, (3, 2), image=(6, 4), weights=(1, 2))", "weights"),
        ("conv(rbf, (3, 2), image=(6, 4), positions=(1, 2))", "is not understood"),
        ("conv(rbf, (5, 3), image=(6, 4), weights=(1, 'a'))", "finite numbers such as"),
        ("conv(rbf, (5, 3), image=(6, 4), weights=(1, 1e999, 1, 1))", "finite numbers such as"),
        (f"conv(rbf, (5, 3), image=(6, 4), weights=({'9' * 400},))", "finite numbers such as"),
        ("conv(rbf, (3, 2), image=(6, 4), **x)", "'\\*\\*x' is not understood"),
        ("conv(rbf, (3, 2), image=(6, 5))", "6 x 5 are 30 columns, and the inputs have 24"),
        ("conv(rbf, (7, 2), image=(6, 4))", "larger than the image"),
        ("conv(rbf, (3, 2), image=(6, 4), stride=0)", "stride must be"),
        ("conv(rbf, (3, 2), image=(6, 4), channels=1)", "0 to 0, given 1"),
        ("conv(2, (3, 2), image=(6, 4))", "2 stands alone"),
        ("conv(rbf[6], (3, 2), image=(6, 4))", "no column '6'; columns are numbered 0 to 5"),
        ("conv(rbf[row], (3, 2), image=(6, 4))", "no column 'row'; columns are numbered 0 to 5"),
        (
            "conv(rbf[rows], (3, 2), image=(6, 4), positions=True)",
            "no column 'rows'; did you mean 'row'",
        ),
        ("conv(rbf[pixels,0], (3, 2), image=(6, 4))", "a column is given twice"),
        ("rbf[pixels]", "no column 'pixels'"),
        ("conv(rbf, (3, 2), image=(6, 4))[0]", "found '\\[0\\]'"),
        ("cnv(rbf, (3, 2), image=(6, 4))", "unknown kernel 'cnv'; did you mean 'conv'"),
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
