#!/usr/bin/env bash
# Makes the environment in which the engine's tests run: SGLang on a machine without a GPU (about 2.4 GB).
# Usage: tests/engines/sglang/setup.sh [FOLDER]   (default: .venv-sglang in the repository)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
venv=${1:-.venv-sglang}
here=tests/engines/sglang
stamp=$venv/.ready-$(cat "$here/requirements.txt" "$here/requirements-nodeps.txt" | sha256sum | cut -c1-12)
if [ ! -e "$stamp" ]; then
  if ! ldconfig -p | grep -q libibverbs; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      DEBIAN_FRONTEND=noninteractive apt-get update -qq
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libibverbs1 libnuma1 libcurl4 >/dev/null
    else
      echo "Mooncake needs libibverbs1, libnuma1 and libcurl4: install them first" >&2
      exit 1
    fi
  fi
  test -x "$venv/bin/python" || "${PYTHON:-python3}" -m venv "$venv"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" "$(grep '^torch==' "$here/requirements.txt")"
  "${pip[@]}" -r "$here/requirements.txt"
  "${pip[@]}" --no-deps -r "$here/requirements-nodeps.txt"
  touch "$stamp"
fi
# The hooks under test, as an engine's image would have them: one package, and its entry point.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check hatchling editables
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e hooks
PYTHONPATH=$here/shims "$venv/bin/python" -W ignore -c 'import sglang, pd_tracer_hooks' && echo "ready: $venv"
