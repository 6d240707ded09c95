#!/bin/sh
# Runs tests on other versions of Spark than that of requirements.lock, each in an environment of its own.
#   scripts/versions.sh 3.5 4.0 -- tests/spark/test_join.py    pytest's arguments after the versions
#   scripts/versions.sh 3.5                                    only makes the environment
# Environments are in .cache/versions, made of tests/versions/<version>.txt, again when that changes.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'versions: %s\n' "$*" >&2; }

make_environment() {
  folder=.cache/versions/$1
  wanted=$(cat "tests/versions/$1.txt" tests/versions/tests.txt pyproject.toml | cksum)
  [ "$(cat "$folder/.made" 2>/dev/null)" != "$wanted" ] || return 0
  say "making the environment of Spark $1 in $folder (a minute or two: PySpark is large)"
  .venv/bin/python -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "tests/versions/$1.txt"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
  "$folder/bin/python" -m pip check --disable-pip-version-check >&2
  printf '%s\n' "$wanted" >"$folder/.made"
}

versions=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [ -f "tests/versions/$1.txt" ] || { say "there is no tests/versions/$1.txt"; exit 2; }
  make_environment "$1"
  versions="$versions $1"
  shift
done
[ $# -gt 0 ] || exit 0
shift
failed=
for version in $versions; do
  say "Spark $version"
  # Numba checks neither its own version nor that of NumPy in the names of what it keeps.
  NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-.cache/numba/any}/$version ".cache/versions/$version/bin/pytest" \
    -p no:cacheprovider --color=no -q -o filterwarnings=default "$@" || failed="$failed $version"
done
[ -z "$failed" ] || { say "tests failed on Spark$failed"; exit 1; }
