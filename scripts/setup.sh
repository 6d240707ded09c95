#!/bin/sh
# Prepares what `make` runs. Does nothing when everything is in place; each failure is one line that says what to install.
#   scripts/setup.sh          .venv with the locked dependencies, Java 17 or newer
#   scripts/setup.sh tests    also the servers of InfluxDB and Prometheus and a browser, where there is apt-get;
#                             without them their tests are skipped
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

on_debian_as_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
  say "installing $1 with apt-get"
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  apt-get install -y -q --no-install-recommends "$1" >/dev/null 2>&1 && return 0
  apt-get update -q >/dev/null 2>&1 || true
  apt-get install -y -q --no-install-recommends "$1" >/dev/null 2>&1
}

find_python() {
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

make_venv() {
  python=$(find_python) || die "Python 3.11 or newer is needed for PySpark 4.3: install python3.11 and run make again, or set PYTHON"
  # On Debian, python3 without python3-venv makes a broken environment and fails: install the package and try again.
  if ! "$python" -m venv --clear .venv >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    wait  # for the other apt-get, which holds the lock
    if ! on_debian_as_root || ! apt_install "$version-venv" || ! "$python" -m venv --clear .venv; then
      die "$python cannot make virtual environments: install $version-venv"
    fi
  fi
  say "installing the locked dependencies into .venv (some minutes the first time: PySpark is large)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
}

java_is_recent() {
  [ -x "$(command -v "$1" 2>/dev/null)" ] || return 1
  major=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${major:-0}" -ge 17 ]
}

need_java() {
  [ -n "${JAVA_HOME:-}" ] && java_is_recent "$JAVA_HOME/bin/java" && return 0
  if java_is_recent java; then
    [ -z "${JAVA_HOME:-}" ] || die "JAVA_HOME ($JAVA_HOME) holds no Java 17 or newer, but PATH does: unset JAVA_HOME"
    return 0
  fi
  on_debian_as_root || die "Java 17 or newer is needed for Spark: install openjdk-17-jre-headless, or set JAVA_HOME"
  # Releases of Debian and Ubuntu that no longer carry 17 have a newer default.
  apt_install openjdk-17-jre-headless || apt_install default-jre-headless ||
    die "apt-get could not install openjdk-17-jre-headless: install Java 17 or newer by hand"
  java_is_recent java || die "the installed java is older than 17: install openjdk-17-jre-headless"
}

SERVERS=.cache/services

# Unpacked, not installed: a package would set up a service that starts with the machine. Tried once only.
need_server() {
  if command -v "$2" >/dev/null 2>&1 || [ -x "$SERVERS/usr/bin/$2" ] || [ -e "$SERVERS/no-$2" ]; then
    return 0
  fi
  say "unpacking Debian's $1 into $SERVERS for the tests"
  mkdir -p "$SERVERS/download"
  if (cd "$SERVERS/download" && fetch_package "$1") && dpkg-deb -x "$SERVERS/download/$1"_*.deb "$SERVERS"; then
    rm -rf "$SERVERS/download"
  else
    rm -rf "$SERVERS/download"
    : >"$SERVERS/no-$2"
    say "could not get $1, so its tests are skipped: install $2, or delete $SERVERS to try again"
  fi
}

fetch_package() {
  apt-get download -q "$1" >/dev/null 2>&1 && return 0
  [ "$(id -u)" != 0 ] || apt-get update -q >/dev/null 2>&1 || true
  apt-get download -q "$1" >/dev/null 2>&1
}

# Installed, because it needs many libraries. Tried once only.
need_browser() {
  for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && return 0
  done
  [ ! -e "$SERVERS/no-chromium" ] || return 0
  if ! on_debian_as_root || ! apt_install chromium; then
    mkdir -p "$SERVERS"
    : >"$SERVERS/no-chromium"
    say "there is no Chromium, so the tests that open pages are skipped: install chromium"
  fi
}

need_java
if [ "${1:-}" = tests ]; then
  # In parallel with pip, which takes longer.
  (
    need_server influxdb influxd
    need_server prometheus prometheus
    need_browser
  ) &
fi
lock=$(cksum <requirements.lock)
if [ "$(cat .venv/.lock 2>/dev/null)" != "$lock" ]; then
  make_venv
  printf '%s\n' "$lock" >.venv/.lock
fi
project=$(cksum <pyproject.toml)
if [ "$(cat .venv/.project 2>/dev/null)" != "$project" ]; then
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
  printf '%s\n' "$project" >.venv/.project
fi
wait
