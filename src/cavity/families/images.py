"""Gaussian processes of images."""

from cavity.families.base import Family, Rule

PARTS = ("position", "weighted", "invariant", "auto")

IMAGES = Family(
    name="gp",
    called="a model of images",
    several="images",
    options={"image_shape": "--image-shape", "parts": "--parts"},
    unused={
        "method": "images have one method, 'power_ep': leave it out",
        "restarts": "a model of images is learned once: leave it out",
        "mean": "a model of images has a constant mean: leave it out",
        "priors": "parameters of a model of images have no priors: leave it out",
        "inducing_kind": "a model of images has inducing patches: leave it out",
        "noise_column": "images have classes: leave it out",
        "exposure_column": "images have classes: leave it out",
        "batch_rows": "a model of images needs all rows in memory: leave it out",
        "checkpoint": "a model of images keeps nothing on the way: leave it out",
    },
    values={"parts": PARTS},
    rules=(
        Rule(
            lambda asked: asked.task not in (None, "classification"),
            "--task",
            "images are for classification: leave it out",
        ),
        Rule(
            lambda asked: len(asked.targets or ()) > 1,
            "--target",
            "images take one target; fit each one alone",
        ),
        Rule(
            lambda asked: not asked.inducing.isdecimal() and asked.given("inducing"),
            "--inducing",
            "give the number of inducing patches, or leave it out",
        ),
        Rule(
            lambda asked: asked.power == "auto",
            "--power",
            "give a number from 0 to 1, or leave it out",
        ),
    ),
    chosen_by="image_shape",
)
