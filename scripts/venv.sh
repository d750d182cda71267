#!/bin/sh
# Makes the virtual environment FOLDER with the first usable Python, or says what is missing, and
# installs what follows (as pip takes it). Where uv is there it does both, in a tenth of the time.
# Usage: [PYTHON=python3.12] scripts/venv.sh FOLDER [PACKAGE ...]
set -eu
folder=$1
shift
oldest=3.11

uv=""
if command -v uv >/dev/null 2>&1; then uv=yes; fi

install() {
    [ $# -gt 0 ] || return 0
    if [ -n "$uv" ]; then
        uv pip install --quiet --python "$folder/bin/python" "$@"
    else
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

if [ -x "$folder/bin/python" ] && "$folder/bin/python" -c 'import pip' 2>/dev/null; then
    install "$@"
    exit 0
fi

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
complete() { [ -n "$uv" ] || "$1" -c 'import ensurepip, venv' 2>/dev/null; }
make_environment() {
    if [ -n "$uv" ]; then
        # with pip, as an environment of Python's own has it
        uv venv --quiet --clear --seed --python "$(command -v "$1")" "$folder"
    else
        "$1" -m venv --clear "$folder"
    fi
}

too_old="" bare=""
for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    command -v "$python" >/dev/null 2>&1 || continue
    found=$(version "$python") || continue
    if ! recent "$python"; then
        too_old="${too_old:-$python is Python $found}"
    elif ! complete "$python"; then
        bare=yes
        package="${package:-python$found-venv}"
        command="${command:-$python}"
    else
        echo "making $folder with $python (Python $found)"
        make_environment "$python"
        install "$@"
        exit 0
    fi
done

{
    echo "cavity needs Python $oldest or newer that can make virtual environments."
    if [ -n "$bare" ]; then
        echo "$command is recent enough, but Debian keeps this part of it in a package of its own."
        echo "Missing package: $package"
        install=$package
    elif [ -n "${PYTHON:-}" ]; then
        echo "PYTHON=$PYTHON was asked for, but ${too_old:-it is not there or does not run}."
        echo "Leave PYTHON out, or name another."
        exit 1
    elif [ -n "$too_old" ]; then
        echo "$too_old, which is too old, and no newer one was found."
        echo "Missing packages: python$oldest python$oldest-venv (Debian 12 has them)"
        install="python$oldest python$oldest-venv"
    else
        echo "No Python was found."
        echo "Missing packages: python3 python3-venv"
        install="python3 python3-venv"
    fi
    echo "Type this, then the same make command again:"
    if [ "$(id -u)" = 0 ]; then
        echo "    apt-get install $install"
    else
        echo "    sudo apt-get install $install"
    fi
} >&2
exit 1
