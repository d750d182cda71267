"""Updates where something fails, and how batches were predicted before them."""

import numpy as np
import pytest

import cavity
from cavity import likelihoods
from cavity.learning.streaming.scores import batch_scores
from cavity.models.remembered import costs_of_removal, posterior_past
from tests.learning.test_update import OLD, M, N, X, Y, Z, gp, rbf
from tests.tolerances import assert_close


class TestImproper:
    """Pasts of negative precision, as outliers leave them with a Student-t likelihood."""

    def old_with_outliers(self, memory):
        model = gp(likelihoods.StudentT(0.1, 3.0), lengthscale=2.0)
        y = np.where(np.arange(N) % 3 == 0, Y + 3.0, Y)
        first = cavity.infer(model, X[:OLD], y[:OLD])
        at = {"learn": False, "inducing": "keep", "memory": memory}
        return cavity.update(first, X[OLD:], y[OLD:], **at)

    @pytest.mark.filterwarnings("ignore:.* new outputs")
    def test_rows_stay_only_where_the_rest_is_proper(self):
        """Rows in memory leave with the others where the past would be improper without them."""
        result = self.old_with_outliers(5)
        assert len(result.live) == 0
        given = result.past.messages[0]
        wanted = posterior_past(result.posterior, result.log_evidence, 0.0).messages[0]
        assert np.min(np.linalg.eigvalsh(np.eye(M) + given.precision)) > 0.0
        assert_close(given.precision, wanted.precision, "fixed_point")
        assert_close(given.log_scale, wanted.log_scale, "fixed_point")
        after = cavity.update(result, X[:4], Y[:4], learn=False, inducing="keep")
        assert np.isfinite(after.log_evidence)

    @pytest.mark.parametrize("learn", [False, True])
    def test_points_stay_where_others_fail(self, monkeypatch, learn):
        from cavity.learning.infer import NumericalError
        from cavity.learning.streaming import found

        inferred = found.inferred

        def failing(result, model, *others):
            if model.inducing is not result.posterior.model.inducing:
                raise NumericalError("undefined")
            return inferred(result, model, *others)

        old = cavity.infer(gp(), X[:OLD], Y[:OLD])
        kept = cavity.update(old, X[OLD:], Y[OLD:], learn=False, inducing="keep")
        monkeypatch.setattr("cavity.learning.streaming.found.inferred", failing)
        monkeypatch.setattr("cavity.learning.streaming.update.inferred", failing)
        result = cavity.update(old, X[OLD:], Y[OLD:], learn=learn, max_iterations=2)
        if learn:
            assert result.log_evidence > kept.log_evidence
            return
        assert not result.converged
        assert "the old ones stay" in result.message
        assert_close(result.model.inducing.Z, Z)
        assert_close(result.log_evidence, kept.log_evidence)


class TestPruning:
    """Points that say least go where there may be no more."""

    def test_costs_are_what_the_past_loses(self):
        """Half of tr PD, with D the covariance that the other points leave, by dense algebra."""
        old = cavity.infer(gp(), X[:OLD], Y[:OLD], jitter=0.0)
        given = costs_of_removal(old.posterior)
        joint = old.posterior.joint(Z)
        K = rbf(Z, Z, 1.3, 0.9)
        P = np.linalg.inv(np.asarray(joint.cov)) - np.linalg.inv(K)
        for j in range(M):
            others = np.delete(np.arange(M), j)
            A = np.linalg.solve(K[np.ix_(others, others)], K[others])
            D = K - K[others].T @ A
            assert_close(given[j], 0.5 * np.trace(P @ D), "quadrature")

    def test_new_points_take_the_place_of_those_that_say_least(self):
        left = X[:, 0] < 0.0
        start = cavity.infer(gp(Z=Z), X[left], Y[left])
        grown = cavity.update(
            start, X[~left], Y[~left], inducing="grow", max_inducing=M, learn=False
        )
        gone = [i for i in range(M) if not np.any(Z[i] == grown.model.inducing.Z)]
        assert grown.model.inducing.size == M
        assert gone == [int(np.argmin(costs_of_removal(start.posterior)))]
        kept = cavity.update(start, X[~left], Y[~left], inducing="keep", learn=False)
        assert grown.log_evidence > kept.log_evidence


class TestMemory:
    def test_rows_of_most_leverage_stay(self):
        """Precisions of Gaussian sites are alike, so that leverage is the variance."""
        first = cavity.infer(gp(), X[:OLD], Y[:OLD])
        same = {"learn": False, "inducing": "keep", "power": 0.0}
        result = cavity.update(first, X[OLD:], Y[OLD:], memory=4, **same)
        var = np.asarray(result.posterior.marginals(X).var)
        most = np.sort(np.argsort(-var, kind="stable")[:4])
        assert_close(result.live.X, X[most])


class TestPruningAnew:
    """Points chosen anew that explain less than the old ones are not taken."""

    def test_points_stay_where_others_explain_less(self):
        well = X[np.argsort(X[:, 0])[:: N // M]][:M]
        first = cavity.infer(gp(Z=well), X, Y)
        result = cavity.update(first, X[:2], Y[:2], learn=False, inducing="move")
        kept = cavity.update(first, X[:2], Y[:2], learn=False, inducing="keep")
        assert result.log_evidence >= kept.log_evidence - 1e-9


class TestScores:
    """How a batch was predicted."""

    @pytest.mark.slow
    def test_densities_of_draws_are_those_of_quantiles(self):
        """What the model expects of Student-t outputs, by quantiles of a numerical inversion."""
        fitted = cavity.infer(gp(likelihoods.StudentT(0.2, 4.0)), X[:OLD], Y[:OLD])
        predicted = fitted.posterior.predict(X[OLD:])
        found = batch_scores(predicted, Y[OLD:])
        levels = (np.arange(100) + 0.5) / 100
        wanted = [predicted.log_density(predicted.quantile(float(p))) for p in levels[::4]]
        assert abs(found.expected - np.mean(wanted)) < 0.1
        assert_close(found.log_density, np.mean(predicted.log_density(Y[OLD:])), "factorised")

    def test_outputs_that_are_missing_do_not_count(self):
        fitted = cavity.infer(gp(), X[:OLD], Y[:OLD])
        y = Y[OLD:].copy()
        y[::2] = np.nan
        found = batch_scores(fitted.posterior.predict(X[OLD:]), y)
        alone = batch_scores(fitted.posterior.predict(X[OLD + 1 :: 2]), Y[OLD + 1 :: 2])
        for name in ("outputs", "log_density", "expected", "spread", "rmse"):
            assert_close(getattr(found, name), getattr(alone, name), "factorised")
