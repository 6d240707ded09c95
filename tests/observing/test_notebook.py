"""Charts in a notebook: drawn again when a micro-batch ends, without scripts, keys as text."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from services.batches import write_batches
from services.ipython import Notebook
from services.standalone import wait_for
from skewless import Ledger, Observer, watch
from skewless.errors import ConfigurationError, SetupError
from skewless.observing.notebook import Snapshot


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(uri=str(tmp_path / "clicks"))
    write_batches(ledger, [[30, 10], [20, 20]], hot="<script>alert(1)</script>")
    return ledger


def test_charts_are_drawn_again_when_a_batch_ends(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    watching = watch(SimpleNamespace(ledger=ledger), interval_s=0.05)
    (first,) = notebook.shown
    assert "2 batches" in first
    assert first.count("<polyline") == 9
    assert first.count("<rect") == 4
    write_batches(ledger, [[1, 39]], first=2, hot="calm")
    wait_for(lambda: "calm" in notebook.shown[-1] or None, "the new batch", seconds=20)
    assert "3 batches" in notebook.shown[-1]
    watching.stop()
    count = len(notebook.shown)
    write_batches(ledger, [[1, 39]], first=3)
    assert len(notebook.shown) == count


def test_what_is_shown_runs_nothing(ledger: Ledger) -> None:
    html = Observer(ledger)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "alert" not in Snapshot(ledger, mask_keys=True).html()


def test_without_batches_it_says_so(tmp_path: Path) -> None:
    assert "waiting for a ledger" in Snapshot(Ledger(uri=str(tmp_path / "none"))).html()


def test_a_query_without_a_ledger_is_an_error(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="a query does not say where its ledger is"):
        watch(SimpleNamespace(isActive=True))
    with pytest.raises(ConfigurationError, match="interval_s must be a number above 0"):
        watch(ledger, interval_s=0)
    monkeypatch.setitem(sys.modules, "IPython", None)
    with pytest.raises(SetupError, match="there is no IPython here"):
        watch(ledger)
