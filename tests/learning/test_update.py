"""Updates: what earlier rows said, seen by a model whose parameters have moved."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.energy import empty_sites, energy
from cavity.inference.past import log_evidence_of_past
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype, infer_from
from cavity.learning.methods.methods import PowerEP
from cavity.learning.streaming.live_rows import as_power
from cavity.models.remembered import posterior_past
from tests.oracle import dense
from tests.tolerances import assert_close

N, OLD, M, NOISE = 40, 25, 7, 0.05
RANDOM = np.random.default_rng(3)
X = RANDOM.uniform(-3.0, 3.0, (N, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RANDOM.normal(size=N)
LABELS = (Y > 0.0).astype(float)
Z = np.linspace(-3.0, 3.0, M)[:, None]
Z2 = np.linspace(-2.8, 2.5, M)[:, None]
EXACT = PowerEP()
POWERS = (0.0, 0.5, 1.0)


def gp(likelihood=None, Z=Z, variance=1.3, lengthscale=0.9, mean=0.0):
    likelihood = likelihoods.Gaussian(NOISE) if likelihood is None else likelihood
    kernel = kernels.RBF(variance, lengthscale)
    return cavity.GP(kernel, likelihood, inducing.Points(Z), means.Constant(mean))


def data_with_past(old, power, past_power, rows=slice(OLD, N), y=Y):
    """The later rows, after the past of a result."""
    past = posterior_past(old.posterior, old.log_evidence, as_power(past_power, np.dtype(float)))
    return dataclasses.replace(prepare(X[rows], y[rows], power=power), past=past)


def seen_by(model, old, power, past_power, y=Y):
    """Inference of another model in the later rows and the past."""
    data = data_with_past(old, power, past_power, y=y)
    return infer_from(as_dtype(model, data), data, EXACT, 0.0)


def evidence_of_past(model, old, past_power, jitter=1e-8):
    data = data_with_past(old, 0.5, past_power)
    problem = data.problem(as_dtype(model, data), EXACT.approximation, jitter)
    return float(log_evidence_of_past(problem.graph()))


def rbf(A, B, variance, lengthscale):
    return dense.rbf(A, B, variance, lengthscale)


def old_likelihood(old, variance=1.3, lengthscale=0.9):
    """The old likelihoods as a Gaussian factor of the values at Z (S19): P, h and c."""
    joint = old.posterior.joint(Z)
    m, S = np.asarray(joint.mean), np.asarray(joint.cov)
    K, inverse = rbf(Z, Z, variance, lengthscale), np.linalg.inv(S)
    P, h = inverse - np.linalg.inv(K), inverse @ m
    c = -0.5 * m @ h + 0.5 * np.linalg.slogdet(K)[1] - 0.5 * np.linalg.slogdet(S)[1]
    return P, h, c + old.log_evidence


def stacked(old, a, b, variance, lengthscale, mean=0.0):
    """S20 with the old likelihoods as pseudo-data P⁻¹h of noise P⁻¹, by dense algebra."""
    P, h, c = old_likelihood(old)
    x, y = X[OLD:], Y[OLD:]
    Kbb = rbf(Z2, Z2, variance, lengthscale)
    noise, target = np.linalg.inv(P), np.linalg.solve(P, h)
    A = np.concatenate([rbf(x, Z2, variance, lengthscale), rbf(Z, Z2, variance, lengthscale)])
    Q = A @ np.linalg.solve(Kbb, A.T)
    d = variance - np.diag(Q)[: len(x)]
    D = rbf(Z, Z, variance, lengthscale) - Q[len(x) :, len(x) :]
    cov = Q.copy()
    cov[: len(x), : len(x)] += np.diag(a * d + NOISE)
    cov[len(x) :, len(x) :] += b * D + noise
    value = dense.gaussian_log_density(np.concatenate([y, target]), mean, cov)
    value -= 0.5 * sum(np.log1p(a * d / NOISE) / a - np.log1p(a * d / NOISE))
    block = np.linalg.slogdet(np.eye(M) + b * D @ P)[1]
    value -= 0.5 * (block / b - block)
    # pseudo-data have a normalised density, the factor has not
    peak = 0.5 * h @ target + 0.5 * (M * np.log(2.0 * np.pi) + np.linalg.slogdet(noise)[1])
    return value + c + peak


@pytest.fixture(scope="module")
def old():
    return {p: cavity.infer(gp(), X[:OLD], Y[:OLD], power=p, jitter=0.0) for p in POWERS}


class TestSamePoints:
    @pytest.mark.sampled(1, "0-0.0")
    @pytest.mark.parametrize("power", POWERS)
    @pytest.mark.parametrize("memory", [0, 9])
    def test_any_split_in_any_order_is_the_batch(self, power, memory):
        """Identity 12: posterior and cumulative evidence."""
        whole = cavity.infer(gp(), X, Y, power=power)
        order = RANDOM.permutation(N)
        result = cavity.infer(gp(), X[order[:11]], Y[order[:11]], power=power)
        for part in (order[11:12], order[12:30], order[30:]):
            same = {"learn": False, "inducing": "keep", "memory": memory}
            result = cavity.update(result, X[part], Y[part], power=power, **same)
        assert_close(result.log_evidence, whole.log_evidence, "factorised")
        given, wanted = (r.posterior.marginals(X) for r in (result, whole))
        assert_close(given.mean, wanted.mean, "factorised")
        assert_close(given.var, wanted.var, "factorised")
        assert result.rows_seen == N
        assert len(result.live) == memory
        assert result.lost == 0.0

    def test_an_empty_batch_changes_nothing(self, old):
        """Identity 14."""
        first = cavity.update(old[0.5], X[:0], Y[:0])
        again = cavity.update(cavity.update(old[0.5], X[OLD:], Y[OLD:], learn=False), X[:0], Y[:0])
        assert first.log_evidence == old[0.5].log_evidence
        assert first.rows_seen == OLD
        assert_close(first.posterior.marginals(X).mean, old[0.5].posterior.marginals(X).mean)
        assert again.rows_seen == N
        assert np.isnan(again.before.log_density)
        after = cavity.update(first, X[OLD:], Y[OLD:], learn=False, inducing="keep")
        direct = cavity.update(old[0.5], X[OLD:], Y[OLD:], learn=False, inducing="keep")
        assert_close(after.log_evidence, direct.log_evidence)

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("power", [0.0, 0.5])
    def test_old_posterior_as_prior_at_equal_parameters(self, old, power):
        """Identity 15: S16 is S17 there, and is not elsewhere."""
        at = {"learn": False, "inducing": "keep", "power": power}
        ours, naive = (
            cavity.update(old[power], X[OLD:], Y[OLD:], reuse=reuse, **at)
            for reuse in ("likelihood", "posterior")
        )
        assert_close(naive.log_evidence, ours.log_evidence, "factorised")
        assert_close(
            naive.posterior.marginals(X).var, ours.posterior.marginals(X).var, "factorised"
        )
        other = gp(lengthscale=0.7)
        data = data_with_past(old[power], power, 0.0)
        values = []
        for with_prior in (False, True):
            past = dataclasses.replace(data.past, with_prior=with_prior)
            there = dataclasses.replace(data, past=past)
            values.append(infer_from(as_dtype(other, there), there, EXACT, 0.0).log_evidence)
        assert abs(values[0] - values[1]) > 0.01
        # S16 by dense algebra: p(f | u) at the new parameters, q(u) the old posterior
        joint = old[power].posterior.joint(Z)
        A = np.linalg.solve(rbf(Z, Z, 1.3, 0.7), rbf(Z, X[OLD:], 1.3, 0.7)).T
        d = 1.3 - np.sum(A * rbf(X[OLD:], Z, 1.3, 0.7), axis=1)
        cov = A @ np.asarray(joint.cov) @ A.T + np.diag(power * d + NOISE)
        wanted = dense.gaussian_log_density(Y[OLD:], A @ np.asarray(joint.mean), cov)
        charge = d / NOISE if power == 0.0 else np.log1p(power * d / NOISE) * (1 / power - 1)
        assert_close(
            values[1], old[power].log_evidence + wanted - 0.5 * np.sum(charge), "factorised"
        )


class TestOtherPoints:
    @pytest.mark.sampled(1, "0.5-0.5")
    @pytest.mark.parametrize(("power", "past_power"), [(0.5, 0.5), (1.0, 0.3), (0.3, 1.0)])
    def test_natural_form_is_stacked_pseudo_data(self, old, power, past_power):
        """Identity 13, at other points and parameters."""
        model = gp(Z=Z2, variance=1.1, lengthscale=0.8)
        given = seen_by(model, old[0.5], power, past_power).log_evidence
        assert_close(given, stacked(old[0.5], power, past_power, 1.1, 0.8), "quadrature")

    def test_a_mean_that_moves_is_one_of_pseudo_data_too(self, old):
        model = gp(Z=Z2, variance=1.1, lengthscale=0.8, mean=0.4)
        given = seen_by(model, old[0.5], 0.5, 0.3).log_evidence
        assert_close(given, stacked(old[0.5], 0.5, 0.3, 1.1, 0.8, 0.4), "quadrature")

    def test_collapsed_bound_is_the_explicit_one_at_its_best(self, old):
        """Identity 17: expected log density, and divergences of the values at Z."""
        model = gp(Z=Z2, variance=1.1, lengthscale=0.8)
        found = seen_by(model, old[0.5], 0.0, 0.0)
        P, h, c = old_likelihood(old[0.5])

        def bound(m, S):
            Kbb = rbf(Z2, Z2, 1.1, 0.8)
            value = 0.5 * (np.linalg.slogdet(S)[1] - np.linalg.slogdet(Kbb)[1] + M)
            value -= 0.5 * (np.trace(np.linalg.solve(Kbb, S)) + m @ np.linalg.solve(Kbb, m))
            for places, own in ((X[OLD:], None), (Z, P)):
                A = np.linalg.solve(Kbb, rbf(Z2, places, 1.1, 0.8)).T
                mean = A @ m
                cov = rbf(places, places, 1.1, 0.8) - A @ (Kbb - S) @ A.T
                if own is None:
                    square = (Y[OLD:] - mean) ** 2 + np.diag(cov)
                    value -= 0.5 * np.sum(np.log(2 * np.pi * NOISE) + square / NOISE)
                else:
                    value += c + h @ mean - 0.5 * (mean @ P @ mean + np.trace(P @ cov))
            return value

        joint = found.posterior.joint(Z2)
        m, S = np.asarray(joint.mean), np.asarray(joint.cov)
        assert_close(found.log_evidence, bound(m, S), "quadrature")
        assert bound(m + 0.01, S) < found.log_evidence
        assert bound(m, 1.02 * S) < found.log_evidence

    @pytest.mark.slow
    def test_more_points_leave_the_evidence_of_the_past(self, old):
        more = gp(Z=np.concatenate([Z2[::2], Z]))
        for past_power in POWERS:
            found = evidence_of_past(more, old[0.5], past_power)
            assert_close(found, old[0.5].log_evidence, "fixed_point")

    def test_at_power_one_any_points_do(self, old):
        far = gp(Z=Z + 50.0)
        assert_close(evidence_of_past(far, old[0.5], 1.0), old[0.5].log_evidence, "fixed_point")

    def test_evidence_never_falls_with_the_power_of_the_past(self, old):
        values = [evidence_of_past(gp(Z=Z2), old[0.5], a) for a in (0.0, 0.01, 0.3, 0.7, 1.0)]
        assert np.all(np.diff(values) > 0.0)

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("past_power", [0.0, 0.5])
    def test_gradients_with_a_singular_past(self, past_power):
        """Two old rows at seven points, a mean that moves, and finite differences."""
        first = cavity.infer(gp(mean=0.2), X[:2], Y[:2], power=0.5)
        data = data_with_past(first, 0.5, past_power)

        def value(x):
            model = gp(Z=jnp.asarray(Z2) + x[0], lengthscale=x[1], variance=x[2], mean=x[3])
            graph = data.problem(model, EXACT.approximation, 1e-8).graph()
            return energy(graph, empty_sites(graph))

        at = jnp.array([0.1, 0.8, 1.2, 0.5])
        given = jax.jit(jax.grad(value))(at)
        compiled, step = jax.jit(value), 1e-5
        wanted = [(compiled(at + e) - compiled(at - e)) / (2 * step) for e in step * np.eye(4)]
        assert_close(given, np.array(wanted), "gradient")


class TestOtherLikelihoods:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("likelihood", "y"),
        [
            (likelihoods.Bernoulli(), LABELS),
            (likelihoods.MultinomialProbit(3), np.digitize(Y, [-0.5, 0.5]).astype(float)),
        ],
        ids=["Bernoulli", "classes"],
    )
    def test_all_rows_in_memory_end_where_the_batch_does(self, likelihood, y):
        model = gp(likelihood)
        result, whole = cavity.infer(model, X[:OLD], y[:OLD]), cavity.infer(model, X, y)
        same = {"learn": False, "inducing": "keep"}
        kept = cavity.update(result, X[OLD:], y[OLD:], memory=N, **same)
        assert_close(kept.log_evidence, whole.log_evidence, "fixed_point")
        forgot = cavity.update(result, X[OLD:], y[OLD:], **same)
        assert 0.0 < abs(forgot.log_evidence - whole.log_evidence) < 0.5
        moved = cavity.update(result, X[OLD:], y[OLD:], learn=False, inducing="move")
        assert np.isfinite(moved.log_evidence)
        assert moved.lost >= 0.0

    def test_one_pass_is_assumed_density_filtering(self):
        """The evidence is the sum of the log densities before each row, in any batches."""
        once = {"power": 1.0, "learn": False, "inducing": "keep", "one_pass": True}
        start = cavity.infer(gp(likelihoods.Bernoulli()), X[:5], LABELS[:5], power=1.0)
        together = cavity.update(start, X[5:], LABELS[5:], **once)
        result, total = start, start.log_evidence
        for i in range(5, 12):
            total += result.posterior.predict(X[i : i + 1]).log_density(LABELS[i : i + 1])[0]
            result = cavity.update(result, X[i : i + 1], LABELS[i : i + 1], **once)
        assert_close(result.log_evidence, total, "factorised")
        rest = cavity.update(result, X[12:], LABELS[12:], **once)
        assert_close(together.log_evidence, rest.log_evidence, "factorised")
        given, wanted = (r.posterior.marginals(X) for r in (together, rest))
        assert_close(given.mean, wanted.mean, "factorised")

    def test_one_pass_has_the_sites_of_the_first_sequential_sweep(self):
        model = gp(likelihoods.Bernoulli())
        start = cavity.infer(model, X[:1], LABELS[:1], power=1.0)
        once = {"power": 1.0, "learn": False, "inducing": "keep", "one_pass": True}
        found = cavity.update(start, X[1:], LABELS[1:], **once).found
        swept = cavity.infer(
            model,
            X,
            LABELS,
            power=1.0,
            method=PowerEP(batch=1, max_sweeps=1, fallback=False),
        )
        ((site,),), ((wanted,),) = found, swept.found
        assert_close(site.precision[: N - 1], wanted.precision[1:N], "factorised")


class TestLearning:
    @pytest.mark.slow
    def test_parameters_and_points_move(self, old):
        result = cavity.update(old[0.5], X[OLD:], Y[OLD:], max_iterations=10)
        kept = cavity.update(old[0.5], X[OLD:], Y[OLD:], learn=False, inducing="keep")
        assert result.log_evidence > kept.log_evidence
        assert not np.array_equal(result.model.inducing.Z, Z)
        again = cavity.update(result, X[:5], Y[:5], max_iterations=3)
        assert again.rows_seen == N + 5
        assert np.isfinite(again.log_evidence)

    @pytest.mark.slow
    def test_points_that_stay_and_parameters_that_are_held(self, old):
        maps = cavity.parameters.bijections(gp())
        held = dataclasses.replace(maps, likelihood=likelihoods.Gaussian(cavity.parameters.FIXED))
        fitted = cavity.fit(gp(), X[:OLD], Y[:OLD], bijections=held, max_iterations=2)
        result = cavity.update(fitted, X[OLD:], Y[OLD:], inducing="keep", max_iterations=5)
        assert_close(result.model.inducing.Z, fitted.model.inducing.Z)
        assert result.model.kernel.lengthscale != fitted.model.kernel.lengthscale
        assert result.model.likelihood.variance == NOISE

    @pytest.mark.slow
    def test_points_are_added_where_rows_are_not_explained(self):
        start = cavity.infer(gp(Z=Z[:3]), X[X[:, 0] < -1.0], Y[X[:, 0] < -1.0])
        new = X[:, 0] >= -1.0
        grown = cavity.update(start, X[new], Y[new], inducing="grow", learn=False)
        Z_grown = np.asarray(grown.model.inducing.Z)
        assert len(Z_grown) > 3
        assert_close(Z_grown[:3], Z[:3])
        few = cavity.update(start, X[new], Y[new], inducing="grow", max_inducing=4, learn=False)
        assert few.model.inducing.size == 4
        assert grown.lost < 1e-6

    @pytest.mark.filterwarnings("ignore:15 new outputs")
    def test_the_past_fades(self):
        first = cavity.infer(gp(), X[:OLD], Y[:OLD])
        faded = cavity.update(
            first, X[OLD:], Y[OLD:] + 2.0, half_life=1.0, learn=False, inducing="keep"
        )
        fresh = cavity.infer(gp(), X[OLD:], Y[OLD:] + 2.0)
        assert_close(
            faded.posterior.marginals(X).mean,
            fresh.posterior.marginals(X).mean,
            "fixed_point",
            1e4,
        )

    def test_a_batch_from_elsewhere_warns(self):
        first = cavity.infer(gp(), X[:OLD], Y[:OLD])
        with pytest.warns(UserWarning, match="half_life"):
            result = cavity.update(first, X[OLD:], Y[OLD:] + 3.0, learn=False, inducing="keep")
        assert result.before.surprising
        assert result.before.rmse > 2.0

    @pytest.mark.slow
    def test_several_outputs_some_missing(self):
        both = np.stack([Y, Y**2], axis=1)
        both[::6, 1] = np.nan
        model = gp(likelihoods.Gaussian([0.05, 0.1]))
        whole = cavity.infer(model, X, both, missing="skip")
        first = cavity.infer(model, X[:OLD], both[:OLD], missing="skip")
        result = cavity.update(
            first, X[OLD:], both[OLD:], missing="skip", learn=False, inducing="keep", memory=5
        )
        assert_close(result.log_evidence, whole.log_evidence, "factorised")
        moved = cavity.update(first, X[OLD:], both[OLD:], missing="skip", max_iterations=2)
        assert np.isfinite(moved.log_evidence)


class TestRefused:
    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"power": 2.0}, r"power must be one number in \[0, 1\]"),
            ({"past_power": 1.5}, "past_power must be one number"),
            ({"inducing": "shrink"}, "inducing must be one of"),
            ({"reuse": "prior"}, "reuse must be one of"),
            ({"reuse": "posterior"}, 'inducing="keep"'),
            ({"memory": -1}, "memory must be a number of rows"),
            ({"half_life": 0.0}, "half_life must be a positive number"),
            ({"one_pass": True}, "give power=1, learn=False and memory=0"),
            ({"rows": {"noise_variance": np.ones(N - OLD)}}, "side data"),
        ],
    )
    def test_settings(self, old, settings, match):
        with pytest.raises(ValueError, match=match):
            cavity.update(old[0.5], X[OLD:], Y[OLD:], **settings)

    @pytest.mark.slow
    def test_rows_of_another_kind(self, old):
        with pytest.raises(ValueError, match="X has 2 columns, the model was learned from 1"):
            cavity.update(old[0.5], np.ones((3, 2)), np.ones(3))
        with pytest.raises(ValueError, match="learned from a vector of outputs"):
            cavity.update(old[0.5], np.ones((3, 1)), np.ones((3, 2)))
        labels = cavity.infer(gp(likelihoods.Bernoulli()), X[:OLD], LABELS[:OLD])
        with pytest.raises(ValueError, match="does not take"):
            cavity.update(labels, X[:3], np.array([0.0, 1.0, 2.0]))
        with pytest.raises(ValueError, match=r"NaN|not finite|missing"):
            cavity.update(old[0.5], X[OLD:], np.full(N - OLD, np.nan))

    def test_posteriors_that_do_not_remember(self):
        full = cavity.infer(cavity.GP(kernels.RBF(), likelihoods.Gaussian()), X, Y)
        with pytest.raises(TypeError, match="a full GP grows with its rows"):
            cavity.update(full, X, Y)
        small = cavity.infer(gp(), X, Y)
        small = dataclasses.replace(small, posterior=cavity.fitting.compressed(small.posterior))
        with pytest.raises(TypeError, match="compressed"):
            cavity.update(small, X, Y)
