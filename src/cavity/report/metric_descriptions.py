"""Descriptions of metrics, in a line each for the report."""

REGRESSION = {
    "rmse": "root mean squared error of the predictive means; in units of the target",
    "mae": "mean absolute error of the predictive means; in units of the target",
    "nlpd": "mean negative log predictive density, in nats per row; lower is better, and only "
    "differences mean something, because the value depends on the units of the target",
    "smse": "mean squared error over the variance of these targets; 0 is perfect, 1 is no better "
    "than their mean",
    "smll": "log loss relative to a normal distribution with the mean and variance of the "
    "training targets, in nats per row; below 0 is better than knowing nothing of the inputs",
    "crps": "continuous ranked probability score, the mean absolute error of a distribution; in "
    "units of the target, lower is better",
    "coverage_50": "share of rows inside their central 50 % interval; near 0.5 is right",
    "coverage_90": "share of rows inside their central 90 % interval; near 0.9 is right",
    "coverage_95": "share of rows inside their central 95 % interval; near 0.95 is right",
}
CLASSIFICATION = {
    "error": "share of rows whose likeliest class is not theirs",
    "nlpp": "mean negative log predictive probability of the true class, in nats per row; lower "
    "is better, and the logarithm of the number of classes (0.693 of two) is guessing",
    "brier": "mean squared difference between the probability of a class and what came true; 0 is "
    "perfect, 0.25 is tossing a coin between two; of more classes the sum over them",
    "ece": "expected calibration error, the mean gap between how sure the model was and how often "
    "it was right, in ten bins; 0 is perfect, but chance alone makes it larger in small tables",
    "auc": "area under the ROC curve, the chance that a row of the second class gets a larger "
    "probability of it than one of the first; 1 is perfect, 0.5 is guessing",
}
METRICS = REGRESSION | CLASSIFICATION
