"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start a browser without a window; skip the test where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    expect.set_options(timeout=20_000)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened_page(browser: Browser, url: str, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """Open a page, and collect what goes wrong on it: errors, what its policy forbids, requests to elsewhere."""
    context = browser.new_context(**options)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("console", lambda message: wrong.extend([message.text] * (message.type == "error")))
    origin = url.partition("?")[0].rstrip("/")
    page.on("request", lambda request: wrong.extend([request.url] * (not request.url.startswith(origin))))
    page.goto(url)
    try:
        yield page, wrong
    finally:
        context.close()
