"""The live page and the doctor's report in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from services.batches import write_batches
from services.browser import opened_page, running_browser
from services.command import run_here
from skewless.observing.page import PageServer
from skewless.storage import Ledger

HOSTILE: Final = "<img src=x onerror=\"alert('run')\"><b>bold</b>"
LOG: Final = Path(__file__).parents[1] / "doctor" / "logs" / "4.3" / "join.log"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(uri=str(tmp_path / "clicks"))
    write_batches(ledger, [[30, 10, 20, 20], [20, 20, 20, 20], [10, 30, 20, 20]], hot=HOSTILE)
    return ledger


def tile(page: Page, name: str) -> str:
    found = page.locator(".tile", has=page.get_by_text(name, exact=True)).locator("b")
    return found.inner_text()


def picture(page: Page) -> list[int]:
    """Return the pixels of the heat map, of one line in the middle of the first worker."""
    pixels = "canvas.getContext('2d').getImageData(0, 5, canvas.width, 1).data"
    return list(page.locator("#heat").evaluate(f"canvas => [...{pixels}]"))


def test_content_live_update_and_hostile_keys(browser: Browser, ledger: Ledger) -> None:
    with PageServer(ledger) as server, opened_page(browser, server.url) as (page, wrong):
        expect(page.locator("#name")).to_have_text("clicks")
        expect(page.locator("#picked")).to_have_text("batch 2, the newest")
        assert (tile(page, "imbalance λ"), tile(page, "skew score")) == ("50.0 %", "25.0 %")
        expect(page.locator("#keys tbody tr").first).to_contain_text(HOSTILE)  # as text
        assert page.locator("#keys img, #keys b, #log img").count() == 0
        assert page.locator(".chart path").count() >= 10
        expect(page.locator("#log tbody tr")).to_have_count(1)
        expect(page.locator("#workers tbody tr")).to_have_count(4)
        pixels = np.array(picture(page)).reshape(-1, 4)
        left, right = pixels[2], pixels[-3]
        assert left[0] > left[2]  # the first worker had too much at first: red
        assert right[2] > right[0]
        write_batches(ledger, [[1, 1, 1, 77]], first=3, hot="calm")
        expect(page.locator("#picked")).to_have_text("batch 3, the newest")
        expect(page.locator("#keys tbody tr").first).to_contain_text("calm")
        assert tile(page, "imbalance λ") == "285.0 %"
        shutil.rmtree(ledger.uri)
        expect(page.locator("#problem")).to_contain_text("vanished")
        expect(page.locator("#picked")).to_have_text("batch 3, the newest")
        assert wrong == []


def test_news_come_while_older_batches_are_still_read(browser: Browser, ledger: Ledger) -> None:
    with PageServer(ledger) as server, opened_page(browser, server.url) as (page, wrong):
        held: list[Route] = []
        page.route("**/api/batches?most=240*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks it
        page.reload()
        expect(page.locator("#picked")).to_have_text("batch 2, the newest")
        write_batches(ledger, [[5, 5, 5, 5]], first=3)
        expect(page.locator("#picked")).to_have_text("batch 3, the newest")
        held[0].fulfill(response=held[0].fetch())
        write_batches(ledger, [[5, 5, 5, 5]], first=4)
        expect(page.locator("#picked")).to_have_text("batch 4, the newest")
        assert page.locator("#balance svg text").all_text_contents()[-2:] == ["batch 0", "4"]
        assert wrong == []


def test_every_chart_table_and_tile_has_its_numbers(browser: Browser, ledger: Ledger) -> None:
    with PageServer(ledger) as server, opened_page(browser, server.url) as (page, wrong):
        expect(page.locator("#keys-of")).to_contain_text("batch 2")
        for chart, names in {
            "balance": ["λ % 50", "stddev 8.839", "skew score % 25"],
            "elapsed": ["took 1.00 s", "with key grouping"],
            "throughput": ["rows per second 80"],
            "latency": ["p50 1.00 s", "p95 1.00 s", "p99 1.00 s"],
            "state": ["keys with state 80", "keys moved 8"],
            "rejects": ["rejected rows 4"],
        }.items():
            for name in names:
                expect(page.locator(f"#{chart} .names")).to_contain_text(name)
            assert page.locator(f"#{chart} svg path").count() == len(names)
            assert names[0] in str(page.locator(f"#{chart} svg").get_attribute("aria-label"))
        hottest = page.locator("#keys tbody tr").first
        for part in ("95.0 %", "2 batches, 2.00 s", "0 (9), 1 (29), 2 (19), 3 (19)"):
            expect(hottest).to_contain_text(part)
        expect(hottest.locator("td").nth(5)).to_have_text("4")  # pieces
        assert page.locator("#events .mark.cut").count() == 1
        expect(page.locator("#log tbody tr").first).to_contain_text("3.8 times a worker's fair share")
        second = page.locator("#workers tbody tr").nth(1)
        assert [second.locator("td").nth(at).inner_text() for at in (0, 1, 4, 5, 6)] == ["1", "30", "0.30 s", "20", "1"]
        assert tile(page, "took") == "1.00 s"
        assert tile(page, "rejected") == "4"
        assert tile(page, "with key grouping").endswith("s")
        assert wrong == []


def test_a_page_for_other_machines_works_with_its_token(browser: Browser, ledger: Ledger) -> None:
    with PageServer(ledger, host="0.0.0.0") as server:  # noqa: S104 - that is the point
        url = server.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        with opened_page(browser, url) as (page, wrong):  # scripts, numbers and news come with the cookie
            expect(page.locator("#picked")).to_have_text("batch 2, the newest")
            write_batches(ledger, [[5, 5, 5, 5]], first=3)
            expect(page.locator("#picked")).to_have_text("batch 3, the newest")
            assert wrong == []
        with opened_page(browser, url.partition("?")[0]) as (page, _):
            expect(page.locator("body")).to_contain_text("this page needs the token")


def test_keyboard_picks_batches_and_follows_keys(browser: Browser, ledger: Ledger) -> None:
    with PageServer(ledger) as server, opened_page(browser, server.url) as (page, wrong):
        picked = page.locator("#picked")
        expect(picked).to_have_text("batch 2, the newest")
        page.keyboard.press("ArrowLeft")
        expect(picked).to_have_text("batch 1")
        expect(page.locator("#keys-of")).to_contain_text("batch 1")
        assert page.locator("#pause").get_attribute("aria-pressed") == "true"
        write_batches(ledger, [[5, 5, 5, 5]], first=3)  # news do not move what is picked
        page.keyboard.press("Home")
        expect(picked).to_have_text("batch 0")
        page.keyboard.press("Space")
        expect(picked).to_have_text("batch 3, the newest")
        follow = page.locator("#keys button").first
        follow.focus()
        write_batches(ledger, [[5, 5, 5, 5]], first=4)  # news do not take the focus away
        expect(picked).to_have_text("batch 4, the newest")
        page.keyboard.press("Enter")
        expect(page.locator("#followed")).to_be_visible()
        expect(page.locator("#followed-key")).to_have_text("DE")
        expect(page.locator("#followed-share .names")).to_contain_text("share % 80")
        page.keyboard.press("Escape")
        expect(page.locator("#followed")).to_be_hidden()
        page.locator("#heat").click(position={"x": 3, "y": 3})
        expect(picked).to_have_text("batch 0")
        page.keyboard.press("p")  # replays, and stops at the end
        expect(picked).to_have_text("batch 4")
        expect(page.locator("#replay")).to_have_text("Replay")
        assert wrong == []


def test_narrow_windows_and_dark_mode(browser: Browser, ledger: Ledger) -> None:
    with PageServer(ledger) as server:
        for scheme in ("light", "dark"):
            size = {"width": 360, "height": 700}
            with opened_page(browser, server.url, viewport=size, color_scheme=scheme) as (page, wrong):
                expect(page.locator("#picked")).to_have_text("batch 2, the newest")
                assert page.evaluate("document.documentElement.scrollWidth") <= 360
                background = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert background == ("rgb(20, 23, 26)" if scheme == "dark" else "rgb(255, 255, 255)")
                assert wrong == []


def test_the_doctors_report(browser: Browser, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert run_here("doctor", str(LOG), "--html", str(report)).returncode == 0
    with opened_page(browser, report.as_uri(), viewport={"width": 360, "height": 700}) as (page, wrong):
        expect(page.locator("h2")).to_have_text("join")
        expect(page.locator("code")).to_have_text('skewless.join(left, right, "k")')
        assert page.evaluate("getComputedStyle(document.body).marginTop") == "0px"  # the style is allowed
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert wrong == []
