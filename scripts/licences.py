"""Write docs/dependencies.md: what skewless installs, why, and under which licence."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import tomllib
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dependencies.md"

_HEAD = """# Dependencies and their licences

skewless itself is under Apache-2.0. `scripts/licences.py` writes this page from the metadata of the packages that
`requirements.lock` installs. *core* comes with `pip install skewless`, all else with the extra of that name; the second
table has what these packages need themselves.
"""


def page() -> str:
    """Return the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    direct: dict[str, list[str]] = {}
    for group, lines in groups.items():
        for line in lines:
            if not line.startswith("skewless["):
                direct.setdefault(_name(Requirement(line)), []).append(group)
    own = [f"| {name} | {', '.join(of)} | {licence(name)} |" for name, of in sorted(direct.items())]
    others = [f"| {name} | {licence(name)} |" for name in sorted(_needed(set(direct)) - set(direct))]
    tables = ["| package | for | licence |", "|---|---|---|", *own, "", "| package | licence |", "|---|---|", *others]
    return "\n".join([_HEAD, *tables, ""])


def licence(name: str) -> str:
    """Return the licence of an installed package, by its expression, classifiers or text."""
    about = metadata(name).json
    classified = [line.rpartition(" :: ")[2] for line in about.get("classifier", ()) if "License ::" in line]
    text = str(about.get("license", "")).strip().split("\n", maxsplit=1)[0]
    found = str(about.get("license_expression", "")) or " or ".join(classified) or text
    assert found, f"{name} names no licence"
    return found


def _name(requirement: Requirement) -> str:
    return re.sub(r"[-_.]+", "-", requirement.name).lower()


def _needed(names: set[str]) -> set[str]:
    """Return packages with all that they need, as far as it is installed."""
    found, ahead = set[str](), sorted(names)
    while ahead:
        name = ahead.pop()
        if name in found:
            continue
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue  # not needed on this platform
        found.add(name)
        wanted = (Requirement(line) for line in lines)
        ahead += [_name(one) for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
