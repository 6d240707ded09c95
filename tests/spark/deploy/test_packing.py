"""Archives for executors: what is in them, and which skewless an executor uses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import skewless
from skewless.cli.main import main
from skewless.errors import SkewlessError
from skewless.spark.deploy.packing import pack_environment, pack_package
from skewless.spark.deploy.shipping import digest_of


def imported(folder: Path, *path: Path) -> Path:
    """Import skewless in a folder, as executors do, and give the file that it came from."""
    program = "import skewless.errors, sys; print(skewless.__file__); assert skewless.errors.SkewlessError"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()).resolve()


def test_an_executor_uses_what_it_has_only_if_the_driver_has_the_same(tmp_path: Path) -> None:
    shutil.unpack_archive(pack_package(tmp_path), tmp_path / "work" / "skewless")
    home = Path(skewless.__file__).parent
    sent = tmp_path / "work" / "skewless" / "package" / "skewless" / "__init__.py"
    shutil.copytree(home, tmp_path / "other" / "skewless", ignore=shutil.ignore_patterns("__pycache__"))
    same = tmp_path / "other" / "skewless" / "__init__.py"
    assert imported(tmp_path / "work", tmp_path / "other") == same
    (same.parent / "another.py").write_text("")
    assert imported(tmp_path / "work", tmp_path / "other") == sent


def test_experiments_stay_with_the_driver(tmp_path: Path) -> None:
    with zipfile.ZipFile(pack_package(tmp_path)) as archive:
        names = archive.namelist()
    assert "package/skewless/spark/grouped.py" in names
    assert not [name for name in names if "/experiments/" in name]
    packed = pack_environment(tmp_path / "environment.tar.gz", level=0)
    with tarfile.open(tmp_path / "environment.tar.gz") as environment:
        paths = environment.getnames()
    assert len(paths) == packed["files"]
    assert "packages/skewless/spark/grouped.py" in paths
    assert not [path for path in paths if "/experiments/" in path]
    (tmp_path / "environment.tar.gz").unlink()  # pytest keeps what tests leave


def test_experiments_do_not_tell_copies_apart(tmp_path: Path) -> None:
    for folder in ("", "experiments", "spark"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "__init__.py").write_text("")
    before = digest_of(tmp_path)
    (tmp_path / "experiments" / "more.py").write_text("")
    assert digest_of(tmp_path) == before
    (tmp_path / "spark" / "more.py").write_text("")
    assert digest_of(tmp_path) != before


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("environment.zip", {}, r"must be named \*.tar.gz or \*.tgz; got environment.zip"),
        ("environment.tgz", {"level": 10}, "between 0 and 9; got 10"),
        ("environment.tgz", {"also": ["no-such-package"]}, "no-such-package is not installed here. Pip install"),
        ("environment.tgz", {"also": ["; a"]}, "written as name or name"),
        ("environment.tgz", {"also": ["skewless"]}, "skewless is installed in place"),
    ],
)
def test_what_cannot_be_packed(tmp_path: Path, name: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(SkewlessError, match=said):
        pack_environment(tmp_path / name, **settings)  # type: ignore[arg-type] # some are wrong on purpose
    assert list(tmp_path.iterdir()) == []


def test_the_command_tells_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in [
        (["pack", str(tmp_path / "environment.zip")], "environment.zip"),
        (["pack", str(tmp_path / "none" / "environment.tgz")], "cannot write"),
    ]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


def test_an_archive_is_for_a_cluster_and_must_be_there(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from skewless.spark.deploy.session import make_session

    with pytest.raises(SkewlessError, match=r"local\[2\] runs this Python"):
        make_session("local[2]", archive="environment.tgz")
    with pytest.raises(SkewlessError, match=r"no such archive: .* skewless pack"):
        make_session("spark://127.0.0.1:1", archive=str(tmp_path / "environment.tgz"))
