"""What is in the wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

import skewless


def test_the_wheel_is_typed_and_has_the_version_of_the_package(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(Path(__file__).parents[1])).build(directory=str(tmp_path), versions=["standard"])
    assert Path(wheel).stat().st_size <= 1_000_000
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith((".csv", ".svg", ".ipynb"))], "results belong to the docs"
    assert "skewless/py.typed" in names
    assert f"skewless-{skewless.__version__}.dist-info/METADATA" in names
