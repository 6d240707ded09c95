"""The live page of a query, fed by its ledger: charts in a browser, JSON behind them."""

from skewless.observing.page.server import PageServer

__all__ = ["PageServer"]
