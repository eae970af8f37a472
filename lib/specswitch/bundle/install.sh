#!/bin/sh
# Installs this bundle without network: sh install.sh TARGET
# PYTHON=/path/to/python3 picks the interpreter that the bundle is for; default: python3.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
    echo "error: no $python here: put the node's python3 on PATH, or name it with PYTHON=/path/to/python3" >&2
    exit 2
fi
if [ ! -f "$here/install.py" ]; then
    echo "error: $here has no install.py: copy the whole folder of the bundle again" >&2
    exit 2
fi
exec "$python" "$here/install.py" "$@"
