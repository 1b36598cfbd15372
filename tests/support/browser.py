"""Debian's chromium without a screen, driven by playwright.

A page fails its test for an error in its console or a foreign request.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.needs import require
from tests.support.network import deaf_library

PACKAGE = "chromium-headless-shell"
WAIT = 20_000
"""Milliseconds until a condition counts as never met."""

_LOADED = """() => ({ ready: document.readyState, hidden: document.hidden, now: performance.now(),
  files: performance.getEntriesByType("resource").map((file) =>
    [file.name.split("/").pop(), file.responseStatus, file.requestStart, file.responseEnd].join(" ")) })"""
"""What a page has loaded, and when."""

_ANSWER = 3_000
"""Milliseconds that a page gets to say what it shows, after its test failed. It may never answer."""


def program() -> str | None:
    """Return the path of the browser, if there is one. The shell takes two thirds of chromium's processor time."""
    return shutil.which(PACKAGE) or shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser, which does not hear of other tests' interfaces of this machine."""
    path = program()
    require(path is not None, f"chromium: Debian's {PACKAGE}")
    playwright_api = __import__("playwright.sync_api", fromlist=["sync_playwright"])
    with tempfile.TemporaryDirectory() as folder, playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            env={**os.environ, "LD_PRELOAD": str(deaf_library(Path(folder)))},
        )
        try:
            yield browser
        finally:
            browser.close()


def playwright_errors() -> Any:
    return __import__("playwright.sync_api", fromlist=["TimeoutError"])


@contextmanager
def tabs(browser: Any, **options: Any) -> Iterator[Any]:
    """Yield a context: its pages share cookies and the browser's cache, so that all but the first open fast."""
    context = browser.new_context(viewport={"width": 1360, "height": 900}, **options)
    context.set_default_timeout(WAIT)
    try:
        yield context
    finally:
        context.close()


@contextmanager
def opened(browser: Any, link: str, allowed: tuple[str, ...] = (), **options: Any) -> Iterator[Any]:
    """Yield a page at ``link``, in a context of its own. Afterwards, fail for what the page did wrong.

    ``allowed``: parts of console errors that the test causes.
    """
    with tabs(browser, **options) as context, tab(context, link, allowed) as page:
        yield page


def run_script(page: Any, script: str, argument: Any = None) -> Any:
    """Return what a script gives, as `page.evaluate`, but wait no longer than the page's limit for an answer."""
    return page.locator(":root").evaluate(f"(_, argument) => ({script})", argument)


def _shown(page: Any) -> str:
    root = page.locator(":root")
    try:
        loaded = root.evaluate(_LOADED, timeout=_ANSWER)
        return f"It has loaded {loaded}, and shows {root.inner_html(timeout=_ANSWER):.20000}"
    except playwright_errors().Error as error:
        return f"It does not say what it shows: {error}"


@contextmanager
def tab(context: Any, link: str, allowed: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield a page at ``link``. Afterwards, fail for what the page did wrong."""
    page, wrong, origin = context.new_page(), [], link.partition("/open/")[0]
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
    page.on("request", lambda request: request.url.startswith(origin) or wrong.append(f"foreign: {request.url}"))
    try:
        try:
            page.goto(link)
            page.wait_for_selector("#top nav")
            yield page
        except BaseException as error:
            error.add_note(f"The page said {wrong}. {_shown(page)}")
            raise
        found = [each for each in wrong if not any(part in each for part in allowed)]
        assert found == [], found
    finally:
        page.close()
