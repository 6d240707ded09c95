"""The live page of `skewless watch` and `skewless run`, as far as no Spark session is needed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from services.batches import write_batches
from services.command import SKEWLESS
from skewless.cli.page import open_page
from skewless.errors import SkewlessError
from skewless.storage import Ledger


def ask(said: str) -> Any:
    """Return what the page says about its run; `said` has its address."""
    (address,) = re.findall(r"live page: (http://127\.0\.0\.1:\d+/)", said)
    with urlopen(f"{address}api/run", timeout=30) as answer:  # noqa: S310 - our own
        return json.load(answer)


def test_watch_serves_a_page_until_ctrl_c(tmp_path: Path) -> None:
    write_batches(Ledger(uri=str(tmp_path)), [[3, 1]])
    command = [*SKEWLESS, "watch", str(tmp_path), "--page", "0", "--name", "clicks", "--mask-keys"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        run = ask(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (run["name"], run["workers"], run["masked"]) == ("clicks", 2, True)
    assert (process.returncode, output, errors) == (130, "", "skewless: interrupted\n")


def test_an_address_for_others_comes_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        open_page(stack, str(tmp_path), "0.0.0.0:0", None, mask_keys=False)
    address, warning = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"live page: http://0\.0\.0\.0:\d+/\?token=[\w-]{32}", address)
    assert warning.startswith("anyone who can reach this address and knows the token sees the keys")
    with ExitStack() as stack:
        open_page(stack, str(tmp_path), "0.0.0.0:0", None, mask_keys=True)
    assert "sees how the load is spread, and" in capsys.readouterr().err
    with ExitStack() as stack:
        open_page(stack, str(tmp_path), "0", None, mask_keys=False)
    assert "token" not in capsys.readouterr().err


def test_a_run_has_a_page_of_its_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    from skewless.cli.run import _with_page
    from skewless.runner.config.job import make_job

    flags: dict[str, Any] = {"--stream": "zipf-1.2-1000", "--tuples": 100}
    with ExitStack() as stack:
        assert _with_page(stack, make_job(None, flags)).ledger is None
        assert capsys.readouterr().err == ""
        for more, place in (
            ({}, r".*/skewless-\w+/ledger"),
            ({"--ledger": str(tmp_path / "own")}, re.escape(str(tmp_path / "own"))),
            ({"--checkpoint": str(tmp_path / "check")}, re.escape(str(tmp_path / "check" / "ledger"))),
        ):
            pipeline = _with_page(stack, make_job(None, {**flags, "--page": "0", **more}))
            assert (pipeline.ledger is None) == ("--checkpoint" in more)
            run = ask(capsys.readouterr().err)
            assert re.fullmatch(f"waiting for a ledger at {place}", run["problem"])
    with pytest.raises(SkewlessError, match="a batch job has no ledger to show"):
        make_job(None, {**flags, "--page": "0", "--batch": True})
