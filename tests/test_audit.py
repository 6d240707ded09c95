"""The audit of locked packages finds what an advisory says of them, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

import audit

RANGES = [{"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "2.0"}, {"last_affected": "2.1"}]


def advisory(**affected: Any) -> dict[str, Any]:
    return {"id": "X-1", "aliases": ["CVE-1"], "modified": "2026-01-02T03:04:05Z",
            "affected": [{"package": {"name": "Some_Package", "ecosystem": "PyPI"}, **affected}]}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "found"),
    [("0.1", True), ("1.1.9", True), ("1.2", False), ("1.9", False), ("2.0", True), ("2.1", True), ("2.1.1", False)],
)
def test_a_version_is_within_a_range_or_not(version: str, found: bool) -> None:
    ranges = [{"type": "ECOSYSTEM", "events": RANGES}]
    assert audit.is_affected(Version(version), {"ranges": ranges}) == found
    assert audit.is_affected(Version(version), {"versions": [version, "old-style"]})
    assert not audit.is_affected(Version(version), {"versions": ["7"], "ranges": [{"type": "GIT", "events": RANGES}]})


def test_advisories_are_found_by_package_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "lock"
    lock.write_text("some-package==2.0 \\\n    --hash=sha256:0\nother==1.0 ; python_version < '3.12' \\\n")
    monkeypatch.setattr(audit, "LOCK", lock)
    folder = tmp_path / "advisories"
    folder.mkdir()
    assert audit.main(str(folder)) == 2
    (folder / "a.yaml").write_text(yaml.safe_dump(advisory(versions=["1.0"])))
    (folder / "b.json").write_text(json.dumps(advisory(versions=["2.0"]) | {"withdrawn": "2026-01-01T00:00:00Z"}))
    assert audit.main(str(folder)) == 0
    (folder / "c.json").write_text(json.dumps(advisory(ranges=[{"type": "ECOSYSTEM", "events": RANGES}])))
    assert audit.main(str(folder)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "2 packages, 1 advisories up to 2026-01-02: 0 found",
        "some-package 2.0: X-1 CVE-1",
        "2 packages, 2 advisories up to 2026-01-02: 1 found",
    ]


def test_the_lock_file_is_read_whole() -> None:
    packages = audit.locked(audit.LOCK.read_text())
    assert len(packages) > 50
    assert {"numpy", "pyarrow", "pyspark", "grpcio-status"} <= packages.keys()
