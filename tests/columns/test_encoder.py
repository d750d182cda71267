"""Columns as features: which of a category's columns a name stands for."""

from cavity.columns.encoder import Column, Encoder

ENCODER = Encoder(
    (
        Column("x", "numeric"),
        Column("colour", "categorical", ("blue", "red")),
        Column("old", "boolean"),
        Column("size", "categorical", ("large", "small", "tiny")),
    )
)


def test_categories_in_a_kernel_are_the_numbers_of_their_features():
    assert ENCODER.features[4:] == ("size=large", "size=small", "size=tiny")
    assert ENCODER.groups == (0, 1, 1, 2, 3, 3, 3)
    found = ENCODER.with_features('rbf[colour] * linear[size, x] + matern32["size=tiny"]')
    assert found == "rbf[1, 2] * linear[4, 5, 6, x] + matern32['size=tiny']"
