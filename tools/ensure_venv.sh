#!/bin/sh
# ensure_venv.sh PYTHON FOLDER: makes the virtual environment if it is missing or was left half made.
set -eu
python=$1
venv=$2

if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "Headwater needs Python 3.10 or newer; '$python' is not. Name one: make PYTHON=python3.11 ..." >&2
    exit 1
fi
echo "==> Virtual environment in $venv"
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian keeps venv in a package of its own.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "==> Installing python3-venv"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
    else
        echo "'$python' can't make virtual environments. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi
"$python" -m venv "$venv"
