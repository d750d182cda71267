"""`make` on a machine that lacks something says exactly which Debian package to install."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.meta.source import ROOT

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
GOOD = f'exec "{sys.executable}" "$@"'
BARE = f'case "$*" in *ensurepip*) exit 1;; esac\n{GOOD}'  # Debian without python3-venv
OLD = 'case "$*" in *version_info*print*|*print*) echo 3.9;; *) exit 1;; esac'

if sys.platform == "win32" or shutil.which("sh") is None:
    pytest.skip("needs a POSIX shell", allow_module_level=True)


@pytest.fixture
def ask(tmp_path):
    """Runs scripts/venv.sh where the only programs are the given pretended Pythons."""

    def run(wanted="", **pythons):
        programs = tmp_path / "bin"
        programs.mkdir()
        for tool in ("sh", "id", "env"):
            (programs / tool).symlink_to(shutil.which(tool))
        for name, body in pythons.items():
            path = programs / name.replace("_", ".")
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        command = [str(programs / "sh"), str(ROOT / "scripts" / "venv.sh"), str(tmp_path / "venv")]
        environment = {"PATH": str(programs), "PYTHON": wanted}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return run


def test_no_python(ask):
    result = ask()
    assert result.returncode == 1
    assert "apt-get install python3 python3-venv\n" in result.stderr


def test_no_ensurepip(ask):
    result = ask(python3=BARE)
    assert result.returncode == 1
    assert f"Missing package: python{HERE}-venv\n" in result.stderr
    assert f"apt-get install python{HERE}-venv\n" in result.stderr


def test_too_old(ask):
    result = ask(python3=OLD)
    assert result.returncode == 1
    assert "python3 is Python 3.9, which is too old" in result.stderr
    assert "apt-get install python3.11 python3.11-venv\n" in result.stderr


def test_a_python_that_was_asked_for_is_not_replaced(ask):
    result = ask(wanted="python3", python3=OLD, python3_12=GOOD)
    assert result.returncode == 1
    assert "PYTHON=python3 was asked for" in result.stderr


def test_a_newer_python_beside_an_old_one_is_taken(ask, tmp_path):
    if HERE not in ("3.11", "3.12", "3.13", "3.14"):
        pytest.skip(f"the script does not look for python{HERE} by name")
    result = ask(python3=OLD, **{f"python{HERE}".replace(".", "_"): GOOD})
    assert result.returncode == 0, result.stderr
    assert os.access(tmp_path / "venv" / "bin" / "python", os.X_OK)


def test_an_environment_that_works_is_kept(ask, tmp_path):
    bin_folder = tmp_path / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").write_text("#!/bin/sh\nexit 0\n")
    (bin_folder / "python").chmod(0o755)
    result = ask()
    assert (result.returncode, result.stdout) == (0, "")
