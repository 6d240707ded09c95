#!/bin/sh
# Installs what `make wheel` has built in empty environments, as a user would, and runs the examples of README there.
#   the wheel with the extra `spark`, the source distribution without extras
set -eu
cd "$(dirname "$0")/.."

say() { printf 'release-check: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

wheel=$(ls dist/*.whl) || die "there is no wheel in dist: run make wheel"
sdist=$(ls dist/*.tar.gz) || die "there is no source distribution in dist: run make wheel"
size=$(wc -c <"$wheel")
[ "$size" -le 1000000 ] || die "$wheel has $size bytes, more than 1 MB"
say "$wheel has $size bytes"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
here=$(pwd)

install() {
  say "installing $2"
  .venv/bin/python -m venv "$folder/$1"
  "$folder/$1/bin/python" -m pip install --quiet --disable-pip-version-check "$2"
  "$folder/$1/bin/python" -m pip check --disable-pip-version-check >&2
}

# From another directory: what is imported must be what was installed.
install spark "$wheel[spark]"
(cd "$folder" && PYSPARK_PYTHON="$folder/spark/bin/python" spark/bin/python "$here/scripts/run_readme.py" "$here/README.md")

install core "$sdist"
(
  cd "$folder"
  core/bin/skewless --version
  core/bin/skewless simulate --stream country-skew-r80 --tuples 10000 --workers 4 --json >/dev/null
  core/bin/skewless diagnose --stream country-skew-r80 --workers 4 >/dev/null
)

.venv/bin/python - <<'END' || say "pyproject.toml has no [project.urls]: set them before an upload"
import sys
from pathlib import Path

sys.exit("[project.urls]" not in Path("pyproject.toml").read_text())
END
say "done"
