"""The options of the live page, for the commands that serve it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from skewless.observing.http_server import host_and_port
from skewless.observing.page import PageServer

Page = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:]PORT",
        help="Serve a live page with charts at http://HOST:PORT/; 0 is any free port. HOST is 127.0.0.1; any other "
        "needs the token that is printed.",
    ),
]
MaskKeys = Annotated[
    bool, typer.Option("--mask-keys", help="Show hashes instead of keys on the page, as keys are personal data.")
]


def open_page(stack: ExitStack, ledger: str, page: str, name: str | None, *, mask_keys: bool) -> PageServer:
    """Serve the page of a ledger and print where; the stack closes it."""
    host, port = host_and_port(page, "page")
    server = stack.enter_context(PageServer(ledger, port, host, name=name, mask_keys=mask_keys))
    typer.echo(f"live page: {server.url}", err=True)
    if server.token is not None:
        seen = "how the load is spread" if mask_keys else "the keys"
        typer.echo(
            f"anyone who can reach this address and knows the token sees {seen}, and the connection is not encrypted",
            err=True,
        )
    return server
