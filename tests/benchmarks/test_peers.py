"""The runner of the benchmarks beside other libraries, without any of these."""

import json
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from benchmarks.peers import deep, fits, linear, page, problems, turns, workers
from benchmarks.peers.machine import Watch
from benchmarks.peers.worker import scores
from benchmarks.results import FOLDER, Table

from tests.meta.source import ROOT


class Told:
    """A worker that answers from a list, and fails when it is empty."""

    def __init__(self, name, seconds):
        self.library, self.version, self.seconds = name, "1.0", list(seconds)

    def ask(self, what, **options):
        if not self.seconds:
            raise workers.PeerFailed(f"{self.library} died")
        return {
            "seconds": self.seconds.pop(0),
            "cpu": 0.1,
            "value": -2.0 if self.library == "cavity" else -2.5,
        }


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(workers, "PAUSE", 0.0)


def test_turns_and_ratios():
    ours, theirs = Told("cavity", [9.0, 1.0, 3.0, 2.0]), Told("gpflow", [8.0, 4.0, 4.0, 5.0])
    jobs = {"cavity vfe": (ours, "vfe"), "gpflow vfe": (theirs, "vfe")}
    answers = workers.taking_turns(jobs, 3)
    found = turns.rows(answers, {"cavity": ours, "gpflow": theirs}, {})
    assert [row["ms"] for row in found] == [2000.0, 4000.0]
    assert (found[1]["first_ms"], found[1]["over_cavity"]) == (8000.0, 2.0)
    assert found[1]["difference"] == pytest.approx(-0.5)


def test_a_worker_that_dies_is_left_out(capsys):
    jobs = {
        "cavity vfe": (Told("cavity", [1.0] * 4), "vfe"),
        "gpy vfe": (Told("gpy", [1.0]), "vfe"),
    }
    assert list(workers.taking_turns(jobs, 3)) == ["cavity vfe"]
    assert "gpy died" in capsys.readouterr().out


def test_processor_time_of_a_worker_that_ended_is_what_it_was():
    alive, dying = Told("cavity", [1.0, 1.0]), Told("gpy", [1.0])
    watch = Watch([alive, dying])
    assert watch.ours == pytest.approx(0.2)
    watch.others()
    assert sum(watch.used.values()) == pytest.approx(0.2)


@pytest.mark.slow
def test_a_real_worker_answers(tmp_path):
    with workers.worker("cavity", 1) as process:
        path = problems.save(problems.synthetic(40, 5, tests=10), str(tmp_path), "p")
        process.ask("build", name="it", kind="prediction", path=path, method="vfe")
        answer = process.ask("call", name="it")
        assert np.isfinite(answer["value"])
        assert answer["seconds"] > 0.0
        for _ in range(2):  # it ended with the first
            with pytest.raises(workers.PeerFailed, match="KeyError"):
                process.ask("call", name="never built")


def test_equal_caps():
    caps = workers.capped("gpflow", 2)
    assert {caps[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL")} == {"2"}
    assert caps["TF_NUM_INTRAOP_THREADS"] == caps["TF_NUM_INTEROP_THREADS"] == "2"
    assert workers.interpreter("cavity") == workers.Path(sys.executable)


def test_when_a_trace_is_there():
    trace = [(1.0, -10.0), (2.0, -5.0), (3.0, -1.0)]
    assert fits.reached(trace, -5.0) == 2.0
    assert fits.reached(trace, 0.0) is None
    found = {
        "cavity": {"trace": trace, "seconds": 3.0},
        "gpflow": {"trace": [(8.0, -6.0)], "seconds": 8.0},
    }
    found = {
        k: v | {"version": "1", "rmse": 1.0, "density": 0.0, "iterations": 9}
        for k, v in found.items()
    }
    rows = fits.rows({k: v | {"others": ""} for k, v in found.items()})
    assert (rows[1]["cavity_seconds"], rows[1]["share"]) == (2.0, 0.25)


def test_a_trace_keeps_its_ends():
    trace = [(float(i), float(i)) for i in range(1000)]
    kept = fits.thinned(trace)
    assert len(kept) == fits.POINTS
    assert (kept[0], kept[-1]) == (trace[0], trace[-1])


def test_scores_of_a_standard_normal():
    density, rmse = scores(np.zeros(3), np.ones(3), np.array([1.0, -1.0, 1.0]))
    assert density == pytest.approx(-0.5 * np.log(2.0 * np.pi) - 0.5)
    assert rmse == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "shown"), [("0.0123456", "0.0123"), ("1234.5", "1,234"), ("", ""), ("0", "0.00")]
)
def test_short_numbers(text, shown):
    assert page.short(text) == shown


def test_the_page_is_what_the_results_say():
    assert page.text() in page.PAGE.read_text()


def test_the_picture_is_well_formed():
    tree = ElementTree.parse(page.PICTURE).getroot()
    assert tree.tag.endswith("svg")
    words = {text.text for text in tree.iter() if text.tag.endswith("text")}
    measured = {row["library"] for row in Table("peers.csv", ()).rows() if row["task"] == "sparse"}
    assert measured <= words


@pytest.mark.parametrize("path", sorted(FOLDER.glob("peers*.csv")), ids=lambda path: path.name)
def test_every_row_names_its_machine(path):
    rows = Table(path.name, ()).rows()
    assert rows
    assert all(row["processor"] and row["cores"] and row["threads"] for row in rows)
    assert all(None not in row for row in rows)


def test_scores_of_coefficients():
    made = linear.problem(30, 0)
    truth = {"coef": made["w"].tolist(), "intercept": 0.0, "seconds": 1.0, "converged": True}
    found = linear.scored(truth, made)
    assert found["error"] == 0.0
    assert found["rmse"] == pytest.approx(np.sqrt(0.5), rel=0.1)
    assert linear.scored(truth | {"coef": [0.0] * 30, "intercept": 0.0}, made)["error"] == 1.0


def test_growth_of_sweeps_is_that_of_times_over_sizes():
    def row(rows, units, ms):
        sizes = {"part": "sweeps", "rows": str(rows), "units": str(units)}
        return sizes | {"ms": str(ms), "cpu_ms": str(ms)}

    found = [row(1000, 10, 1.0), row(2000, 10, 2.0), row(2000, 20, 8.0)]
    lines = page.network_sweeps(found).splitlines()[2:]
    assert [line.split(" | ")[4] for line in lines] == ["", "1.00", "", "2.00"]


def test_steps_of_deep_models_beside_the_same_of_cavity():
    def told(*seconds):
        return [{"seconds": s, "cpu": 2.0 * s, "value": -2.0} for s in seconds]

    answers = {"cavity one": told(9.0, 1.0, 2.0), "cavity products": told(1.0, 0.5)}
    answers |= {"gpflux one": told(9.0, 6.0, 6.0)}
    known = {"gpflux": {"first_seconds": 9.0, "mean": -2.0, "error": 0.1, "certain": -2.0}}
    ours, products, theirs = deep.rows(answers, known)
    assert (ours["ms"], products["ms"], theirs["ms"]) == (1500.0, 500.0, 6000.0)
    assert (theirs["ms_over_cavity"], theirs["cpu_ms_over_cavity"]) == (4.0, 4.0)
    assert (theirs["first_seconds"], ours["first_seconds"]) == (9.0, "")


@pytest.mark.slow
def test_draws_of_a_deep_model(tmp_path):
    """Many points for each row vary less than one does, and without variance none do."""
    made = problems.deep(60, 5, batch=20, steps=2, D=3)
    certain = problems.save(made | deep.CERTAIN, str(tmp_path), "certain")
    paths = problems.save(made, str(tmp_path), "drawn"), certain
    with workers.worker("cavity", 1) as process:
        found = deep.drawn(process, paths, 50)
        again = process.ask("call", name="certain")["value"]
        process.ask("build", name="one", kind="deep", path=paths[0], method="one")
        values = [process.ask("call", name="one")["value"] for _ in range(10)]
    assert again == pytest.approx(float(found["certain"]), rel=1e-6)
    assert float(found["error"]) < np.std(values) / 10.0
    assert float(found["mean"]) == pytest.approx(np.mean(values), rel=0.2)


def test_rows_that_go_on_are_no_earlier_ones():
    made = problems.continued(50, 5, before=100)
    assert (len(made["X"]), len(made["X_before"]), len(made["X_test"])) == (50, 100, 1000)
    both = np.vstack([made["X"], made["X_before"], made["X_test"]])
    assert len(np.unique(both, axis=0)) == 1150
    assert np.all(made["Z_before"] == made["X_before"][:5])
    assert np.all(made["Z"] != made["Z_before"])


def test_published_scripts_are_needed_beside_their_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "ENVIRONMENTS", tmp_path)
    python = tmp_path / "gpflow" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert workers.interpreter("gpflow") == python
    assert workers.interpreter("streaming") is None
    scripts = tmp_path / "streaming_sparse_gp"
    scripts.mkdir()
    assert workers.interpreter("streaming") is None  # fetched in part
    (scripts / ".made-0").touch()
    assert workers.interpreter("streaming") == python


def test_versions_are_pinned_exactly():
    lists = sorted((ROOT / "benchmarks" / "environments").glob("*.txt"))
    names = {"gpflow", "gpytorch", "gpjax", "gpy", "scikit-learn", "botorch", "numpyro", "abess"}
    names |= {"gpflux"}
    assert {path.stem for path in lists} == names
    for path in lists:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert all("==" in line for line in lines), json.dumps(lines)
