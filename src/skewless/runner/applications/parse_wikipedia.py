"""Wikipedia's files: a line becomes an article, page or language, and how often it was opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from skewless.runner.applications.extraction import Extraction
from skewless.streams.wikipedia import CLICK_FIELDS, VIEW_FIELDS

_NO_DOMAIN: Final = '""'  # what the files have where it is not known
_WHOLE: Final = r"\A-?[0-9]{1,18}\z"


def parse_clicks(found: Mapping[str, Column]) -> Extraction:
    """Make `key`, the article that is opened, and `clicks` of a line of the clickstream.

    A line is `n` clicks. It stays one row, with `n` as its weight: the files have no times that would separate the
    clicks. A line that only names the fields, the first of older files, is no row.
    """
    line = found["text"]
    fields = sf.split(line, "\t", -1)
    article = sf.get(fields, sf.lit(CLICK_FIELDS.index("curr")))
    faults = (
        (sf.size(fields) != len(CLICK_FIELDS), f"the line does not have {len(CLICK_FIELDS)} fields"),
        (article == "", "no article"),
    )
    is_header = line == "\t".join(CLICK_FIELDS)
    keys = sf.explode(sf.when(~is_header, sf.array(article)))
    return _weighted(keys, "clicks", sf.get(fields, sf.lit(CLICK_FIELDS.index("n"))), faults, is_header)


def parse_pages(found: Mapping[str, Column]) -> Extraction:
    """Make `key`, the page, and `views` of a line of the hourly page views.

    A page is its title with the code of its site before it, as both are in the line: every site has a Main_Page. A
    line is `count` views and stays one row.
    """
    domain, page = (_view_field(found, name) for name in ("domain", "page"))
    return _views(found, sf.concat_ws(" ", domain, page))


def parse_languages(found: Mapping[str, Column]) -> Extraction:
    """Make `key`, the language, and `views` of a line of the hourly page views.

    The language is the code of the site up to its first dot: `en.m`, the mobile site, and `en.b`, the books, are `en`.
    """
    return _views(found, sf.substring_index(_view_field(found, "domain"), ".", 1))


def _view_field(found: Mapping[str, Column], name: str) -> Column:
    return sf.get(sf.split(found["text"], " ", -1), sf.lit(VIEW_FIELDS.index(name)))


def _views(found: Mapping[str, Column], key: Column) -> Extraction:
    domain = _view_field(found, "domain")
    n_fields = sf.size(sf.split(found["text"], " ", -1))
    faults = (
        (n_fields != len(VIEW_FIELDS), f"the line does not have {len(VIEW_FIELDS)} fields"),
        (domain.isin("", _NO_DOMAIN) | domain.startswith("."), "no language"),
        (_view_field(found, "page") == "", "no page"),
    )
    return _weighted(key, "views", _view_field(found, "count"), faults, sf.lit(False))


def _weighted(
    key: Column, name: str, weight: Column, faults: tuple[tuple[Column, str], ...], is_header: Column
) -> Extraction:
    number = weight.try_cast("bigint")
    checks = (*faults, (~weight.rlike(_WHOLE), f"the number of {name} is not whole"), (number <= 0, f"no {name}"))
    return Extraction(
        columns=(key.alias("key"), number.alias(name)), faults=tuple((~is_header & fault, why) for fault, why in checks)
    )
