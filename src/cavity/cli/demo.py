"""`cavity demo`: the main job on real data that come with scikit-learn."""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from cavity.cli.fit import run_fit
from cavity.cli.request import Request
from cavity.cli.session import Outcome, Session
from cavity.cli.use import predict, report
from cavity.estimators.regressor import GPRegressor
from cavity.families.table import FAMILIES
from cavity.learning.metrics.regression import nlpd, rmse
from cavity.numerics.text import aligned
from cavity.persistence.atomic_file import reason
from cavity.persistence.errors import DataError
from cavity.tables.files import write_predictions

TARGET = "progression"
FOLDS = 5
N_INDUCING = 30
CANDIDATES: tuple[dict[str, Any], ...] = (
    {"name": "variational (VFE)", "power": 0.0, "n_inducing": N_INDUCING},
    {"name": "Power EP", "power": 0.5, "n_inducing": N_INDUCING},
    {"name": "EP (FITC)", "power": 1.0, "n_inducing": N_INDUCING},
    {"name": "exact GP", "power": None, "n_inducing": None},
)


def demonstrate(session: Session, folder: str) -> Outcome:
    """Compares powers by cross-validation, fits the best, and writes everything to a folder."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {folder}: {reason(error)}", kind="io") from None
    names = ("diabetes.csv", "model.cavity", "predictions.csv", "report.html")
    table, model, predictions, page = (str(place / name) for name in names)
    X, y, features = diabetes()
    write_predictions(table, dict(zip((*features, TARGET), (*X.T, y), strict=True)))
    session.note(f"diabetes data: {len(X)} patients, {len(features)} inputs; {FOLDS} folds")
    results = []
    for candidate in CANDIDATES:
        session.note(f"cross-validating {candidate['name']}")
        results.append(cross_validate(session, candidate, X, y))
    best = min(results, key=lambda result: result["nlpd"])
    session.note(f"fitting the best, {best['name']}, to all patients")
    points = best["n_inducing"]
    power = {} if best["power"] is None else {"--power": str(best["power"])}
    request = Request(
        table=table,
        targets=[TARGET],
        out=model,
        options={"--inducing": "full" if points is None else str(points)} | power,
    )
    fitted = run_fit(session, request, FAMILIES)
    if fitted.code:
        return fitted
    predict(session, model, table, predictions, quantiles="0.05,0.95")
    report(session, model, table, page)
    files = [table, model, predictions, page]
    text = _describe(results, best, files, session.seconds)
    return Outcome({"folder": folder, "results": results, "files": files}, text)


def diabetes() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Inputs in their own units, a year's progression of the disease, and the inputs' names."""
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes(scaled=False)
    return data.data, data.target, list(data.feature_names)


def cross_validate(
    session: Session, candidate: dict[str, Any], X: np.ndarray, y: np.ndarray
) -> dict[str, Any]:
    """Test error and negative log density over all rows, each predicted by the other folds."""
    from sklearn.model_selection import KFold

    began = time.perf_counter()
    mean, density = np.zeros(len(y)), np.zeros(len(y))
    power, points = candidate["power"], candidate["n_inducing"]
    settings = {"power": 0.5 if power is None else power, "n_inducing": points}
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(X):
        gp = GPRegressor(random_state=0, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            gp.fit(X[train], y[train])
        if gp.interrupted_:
            raise KeyboardInterrupt
        for warning in caught:
            session.warn(f"{candidate['name']}: {warning.message}")
        mean[test] = gp.predict(X[test])
        density[test] = gp.log_predictive_density(X[test], y[test])
    scores = {"rmse": rmse(y, mean), "nlpd": nlpd(density)}
    return {**candidate, **scores, "seconds": time.perf_counter() - began}


def _describe(
    results: list[dict[str, Any]], best: dict[str, Any], files: list[str], seconds: float
) -> str:
    def show(value: Any) -> str:
        return "-" if value is None else f"{value:g}"

    rows = [("", "power", "inducing", "test rmse", "test nlpd", "seconds")]
    rows += [
        (
            r["name"],
            show(r["power"]),
            show(r["n_inducing"]),
            f"{r['rmse']:.3f}",
            f"{r['nlpd']:.4f}",
            f"{r['seconds']:.1f}",
        )
        for r in results
    ]
    notes = (
        "diabetes data: a year's progression of the disease from 10 inputs",
        f"{FOLDS}-fold cross-validation (lower is better; nlpd: mean negative log density, nats)",
        f"best by density: {best['name']}; fitted to all rows and written ({seconds:.0f} s):",
    )
    listed = "\n".join(f"  {name}" for name in files)
    return f"{notes[0]}\n{notes[1]}\n\n{aligned(rows, indent='  ')}\n\n{notes[2]}\n{listed}"
