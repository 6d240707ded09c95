"""Look for known vulnerabilities of the locked packages in a copy of an advisory database, without a network.

    git clone --depth 1 https://github.com/pypa/advisory-database
    make audit ADVISORIES=advisory-database/vulns

Any directory of files in the format of https://ossf.github.io/osv-schema, YAML or JSON, will do.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.version import InvalidVersion, Version

LOCK: Final = Path(__file__).parents[1] / "requirements.lock"


def locked(text: str) -> dict[str, Version]:
    """Return the version of each package in a lock file."""
    return {plain(name): Version(version) for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


def plain(name: str) -> str:
    """Return the name of a package as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def advisories(folder: Path) -> Iterator[dict[str, Any]]:
    """Return all advisories below a directory that have not been withdrawn."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in {".yaml", ".yml", ".json"}:
            text = file.read_text(encoding="utf-8")
            found = json.loads(text) if file.suffix == ".json" else yaml.load(text, yaml.CSafeLoader)
            if isinstance(found, dict) and "affected" in found and "withdrawn" not in found:
                yield found


def is_affected(version: Version, by: Mapping[str, Any]) -> bool:
    """Whether an entry of an advisory names a version, or has a range that contains it."""
    if any(_version(name) == version for name in by.get("versions") or ()):
        return True
    ranges = (one["events"] for one in by.get("ranges") or () if one["type"] == "ECOSYSTEM")
    return any(_is_within(version, events) for events in ranges)


def _is_within(version: Version, events: list[dict[str, str]]) -> bool:
    """Whether a version comes after an introduction, and no repair or last one is in between."""
    inside = False
    for event in sorted(
        events, key=lambda event: (_version(*event.values()) or Version("0"), "introduced" not in event)
    ):
        ((kind, name),) = event.items()
        at = _version(name) or Version("0")
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


def _version(name: str) -> Version | None:
    try:
        return Version(str(name))
    except InvalidVersion:  # of other times
        return None


def findings(packages: Mapping[str, Version], known: Iterator[dict[str, Any]]) -> list[str]:
    """Return a line for each advisory that concerns a package as it is locked."""
    lines = []
    for advisory in known:
        for entry in advisory["affected"]:
            package = entry.get("package", {})
            name = plain(package.get("name", ""))
            if package.get("ecosystem") == "PyPI" and name in packages and is_affected(packages[name], entry):
                lines.append(
                    f"{name} {packages[name]}: {advisory['id']} {' '.join(advisory.get('aliases', ()))}".strip()
                )
    return sorted({*lines})


def main(folder: str) -> int:
    """Print what is found; return 1 if there is something, 2 if there was nothing to look in."""
    packages, known = locked(LOCK.read_text()), [*advisories(Path(folder))]
    if not known:
        print(f"there are no advisories in {folder}", file=sys.stderr)
        return 2
    lines = findings(packages, iter(known))
    latest = max(str(advisory.get("modified", "")) for advisory in known)
    print(
        "\n".join(
            [*lines, f"{len(packages)} packages, {len(known):,} advisories up to {latest[:10]}: {len(lines)} found"]
        )
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
