"""Checkpoints on disk: what survives a process that is killed, and what is refused."""

import errno
import os

import numpy as np
import pytest

import cavity
from cavity import fitting
from cavity.persistence.checkpoint import MARKER, FileJournal
from cavity.persistence.errors import StorageError

X = np.linspace(0.0, 3.0, 15)[:, None]
Y = np.sin(2.0 * X[:, 0])
MODEL = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
RECORDS = [b"one", bytes(range(256)), b"the last one"]


def fit(folder, *, X=X, Y=Y, model=MODEL, resume=False, **options):
    options = {"max_iterations": 2} | options
    kept = fitting.Checkpoint(folder, resume=resume)
    return cavity.fit(model, X, Y, checkpoint=kept, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with the checkpoint of a fit."""
    folder = tmp_path_factory.mktemp("done")
    fit(folder)
    return folder


# --------------------------------------------------------------------------- the journal


@pytest.fixture
def path(tmp_path):
    """A journal of three records."""
    journal = FileJournal(tmp_path / "journal")
    for record in RECORDS:
        journal.write(record)
    journal.close()
    return tmp_path / "journal"


def read(path):
    """All records of a journal."""
    journal = FileJournal(path)
    found = list(iter(journal.read, None))
    journal.close()
    return found


def test_records_come_back(path):
    assert read(path) == RECORDS


def test_a_journal_of_nothing(tmp_path):
    assert read(tmp_path / "new") == []
    (tmp_path / "empty").write_bytes(b"")
    assert read(tmp_path / "empty") == []


def test_a_tail_cut_at_any_byte_loses_the_last_record_only(path):
    whole = path.read_bytes()
    size = FileJournal.HEAD.size + len(RECORDS[-1])
    for cut in range(1, size + 1):
        path.write_bytes(whole[:-cut])
        assert read(path) == RECORDS[:2]


def test_a_cut_tail_is_overwritten(path):
    path.write_bytes(path.read_bytes()[:-5])
    journal = FileJournal(path)
    while journal.read() is not None:
        pass
    journal.write(b"new")
    journal.close()
    assert read(path) == [*RECORDS[:2], b"new"]


def test_a_flipped_bit_ends_the_journal(path):
    whole = path.read_bytes()
    first = FileJournal.HEAD.size + len(RECORDS[0])
    second = first + FileJournal.HEAD.size + len(RECORDS[1])
    for place in range(first, second):
        for bit in (0, 7):
            broken = bytearray(whole)
            broken[place] ^= 1 << bit
            path.write_bytes(broken)
            assert read(path) == RECORDS[:1], (place, bit)


def test_what_follows_a_record_that_is_taken_back_is_overwritten(path):
    journal = FileJournal(path)
    journal.read()
    journal.read()
    journal.unread()
    journal.write(bytes(256))  # as long as what it replaces
    journal.close()
    assert read(path) == [b"one", bytes(256)]


def test_a_full_disk(path):
    journal = FileJournal(path)

    class Full:
        def __getattr__(self, name):
            raise OSError(errno.ENOSPC, "No space left on device")

    file, journal.file = journal.file, Full()
    with pytest.raises(StorageError, match=r"no space left on device; .* make room and resume"):
        journal.write(b"more")
    file.close()


# ---------------------------------------------------------------------------- the folder


def test_a_finished_fit_that_goes_on_gives_the_same(done):
    result = fit(done, resume=True)
    assert result.history == fit(done, resume=True).history
    plain = cavity.fit(MODEL, X, Y, max_iterations=2)
    assert (result.history, result.log_evidence) == (plain.history, plain.log_evidence)


@pytest.mark.parametrize("resume", [False, True])
def test_new_and_empty_folders_begin(tmp_path, resume):
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (empty, tmp_path / "deep" / "new"):
        assert np.isfinite(fit(folder, resume=resume).objective)
        assert MARKER in os.listdir(folder)


def test_a_folder_that_holds_a_checkpoint_is_not_begun_anew(done):
    with pytest.raises(StorageError, match=r"holds a checkpoint already: .*--resume.*delete"):
        fit(done)


def test_one_object_does_not_begin_twice(tmp_path):
    kept = fitting.Checkpoint(tmp_path)
    cavity.fit(MODEL, X, Y, checkpoint=kept, max_iterations=2)
    with pytest.raises(StorageError, match="holds a checkpoint already"):
        cavity.fit(MODEL, X, Y, checkpoint=kept, max_iterations=2)


def test_a_fit_that_did_nothing_yet_may_become_another(tmp_path):
    """As after an error that the first evaluation finds."""
    fitting.Checkpoint(tmp_path).claim({"seed": 1})
    assert fit(tmp_path).n_iterations == 2


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_other_files_is_left_alone(tmp_path, resume):
    others = ["thesis.tex", ".model.cavity.7-ab.tmp"]
    for name in others:
        (tmp_path / name).write_text("...")
    with pytest.raises(StorageError, match=r"holds files that are no checkpoint; give a new"):
        fit(tmp_path, resume=resume)
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_what_a_killed_process_left_half_written_is_cleared_away(tmp_path):
    (tmp_path / f".{MARKER}.12-ab.tmp").write_text("cavi")
    fit(tmp_path, resume=True)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match=r"cannot keep a checkpoint in .*; choose another"):
            fit(folder)


def test_a_folder_of_another_version(tmp_path):
    fit(tmp_path)
    (tmp_path / MARKER).write_text("cavity-checkpoint/7\n")
    with pytest.raises(StorageError, match="written by another version"):
        fit(tmp_path, resume=True)


def test_a_damaged_file_is_named(tmp_path):
    fit(tmp_path)
    path = tmp_path / "001-end"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StorageError, match=r"001-end of the checkpoint is damaged; delete it"):
        fit(tmp_path, resume=True)
    path.unlink()
    assert fit(tmp_path, resume=True).n_iterations == 2


OTHERS = {
    "inputs X not the same": {"X": X + 1e-12},
    "outputs y not the same": {"Y": Y + 1e-12},
    r"number of rows 15 there, 14 now": {"X": X[1:], "Y": Y[1:]},
    r"power not the same": {"power": 0.25},
    r"method PowerEP\(\) there, PowerEP\(tolerance=1e-05\) now": {
        "method": cavity.PowerEP(tolerance=1e-5)
    },
    "model not the same|model GP": {
        "model": cavity.GP(cavity.kernels.Matern32(), cavity.likelihoods.Gaussian())
    },
    "starting values of the parameters not the same": {
        "model": cavity.GP(cavity.kernels.RBF(2.0), cavity.likelihoods.Gaussian())
    },
    "max_iterations 2 there, 3 now": {"max_iterations": 3},
    "n_restarts 0 there, 1 now": {"n_restarts": 1},
    "seed 0 there, 1 now": {"seed": 1},
    "tolerance 0.001 there, 0.1 now": {"tolerance": 0.1},
    "side data of the rows not the same": {"rows": {"noise_variance": np.ones(15)}},
    "bijections or schedule": {
        "bijections": cavity.GP(
            cavity.kernels.RBF(cavity.parameters.FIXED, cavity.parameters.Positive()),
            cavity.likelihoods.Gaussian(cavity.parameters.Positive()),
        )
    },
}


@pytest.mark.parametrize("words", OTHERS)
def test_another_fit_is_refused_in_words(done, words):
    with pytest.raises(StorageError, match=words) as refused:
        fit(done, resume=True, **OTHERS[words])
    assert "is that of another fit" in str(refused.value)
    assert "to begin anew" in str(refused.value)


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("first", [2, 30])
def test_a_fit_with_trials_is_another_than_one_without(tmp_path, first):
    """Few iterations make no trials of starts."""
    gp = cavity.GPRegressor(random_state=0, n_inducing=4, max_iterations=first)
    gp.fit(X, Y, checkpoint=fitting.Checkpoint(tmp_path))
    gp.set_params(max_iterations=32 - first)
    with pytest.raises(StorageError, match=r"is that of another fit: it .* several starts"):
        gp.fit(X, Y, checkpoint=fitting.Checkpoint(tmp_path, resume=True))


ROWS = np.linspace(0.0, 9.0, 200)[:, None]
SIGNS = np.where(np.arange(200) % 3 == 0, 1.0, -1.0)
SPARSE = cavity.GP(
    cavity.kernels.RBF(), cavity.likelihoods.Gaussian(), cavity.inducing.Points(ROWS[::50])
)


def fit_batches(folder, *, y=SIGNS, noise=None, resume=True, **options):
    side = {"noise_variance": np.full(200, 0.1) if noise is None else noise}
    batches = fitting.Batches([(ROWS, y, side)], **({"size": 64} | options))
    kept = fitting.Checkpoint(folder, resume=resume)
    return cavity.fit(SPARSE, batches, checkpoint=kept, max_iterations=2)


LATE = {
    "outputs y not the same": {"y": SIGNS[[*range(150), 151, 150, *range(152, 200)]]},
    "side data of the rows not the same": {"noise": np.where(np.arange(200) < 150, 0.1, 0.2)},
    "rows worked on at a time 64 there, 128 now": {"size": 128},
    "rows among which minibatches are shuffled None there, 20 now": {"buffer": 20},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", LATE)
def test_batches_that_differ_further_down_are_another_fit(tmp_path, words):
    """Also where the columns have the same means and spreads."""
    fit_batches(tmp_path, resume=False)
    assert fit_batches(tmp_path).n_iterations == 2
    with pytest.raises(StorageError, match=words):
        fit_batches(tmp_path, **LATE[words])


def test_rounding_of_starting_values_is_no_other_fit(done):
    start = cavity.GP(cavity.kernels.RBF(1.0 + 1e-14), cavity.likelihoods.Gaussian())
    assert fit(done, model=start, resume=True).n_iterations == 2


def test_estimators_need_a_seed(tmp_path):
    kept = fitting.Checkpoint(tmp_path)
    for gp, y in ((cavity.GPRegressor(), Y), (cavity.GPClassifier(), Y > 0.0)):
        with pytest.raises(ValueError, match="random_state=0"):
            gp.fit(X, y, checkpoint=kept)
    assert not os.listdir(tmp_path)


@pytest.mark.slow
def test_estimators_go_on(tmp_path):
    for name, gp, y in (
        ("a", cavity.GPRegressor(random_state=0, n_inducing=4), Y),
        ("b", cavity.GPClassifier(random_state=0, max_iterations=30, power=0.0), Y > 0.0),
    ):
        plain = gp.fit(X, y).log_evidence_
        for _ in range(2):
            again = gp.fit(X, y, checkpoint=fitting.Checkpoint(tmp_path / name, resume=True))
            assert again.log_evidence_ == plain
