"""Tweets: a text becomes its words, its hashtags, or its tickers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as sf

from skewless.runner.applications.extraction import Extraction, stripped
from skewless.streams.elections import ELECTION, ELECTION_PATTERN
from skewless.streams.twitter import (
    APOSTROPHE_PATTERN,
    CASHTAG_PATTERN,
    HASHTAG_PATTERN,
    NO_WORDS_PATTERN,
    STOP_WORDS,
    TAG_PATTERN,
    TICKER_PATTERN,
    WORD_PATTERN,
)


def parse_words(found: Mapping[str, Column]) -> Extraction:
    """Make a row of each word of the text, its `key`.

    A word is a run of letters and digits of any script, with apostrophes inside, in lower case. Stop words, addresses
    and names of users (`@someone`) are none; a hashtag is the words in it.
    """
    text = found["text"].cast("string")
    words = sf.regexp_extract_all(_plain(text), sf.lit(WORD_PATTERN), sf.lit(0))
    meaningful = sf.filter(words, lambda word: ~word.isin(*STOP_WORDS))
    return Extraction(columns=(sf.explode(meaningful).alias("key"),), faults=((_is_blank(text), "no text"),))


def parse_hashtags(found: Mapping[str, Column]) -> Extraction:
    """Make a row of each hashtag, its `key`: of a column that holds one, or of those in a text.

    A hashtag is a # and letters, digits and underscores of any script, at least one of them a letter, in lower case;
    an emoji ends it. The # must not follow such a character, nor an &, as in the character references of HTML. In a
    column of hashtags the # may be missing, and digits alone are enough.
    """
    return _parse_tags(found, TAG_PATTERN, HASHTAG_PATTERN, "no hashtag", lambda tag: tag)


def parse_election(found: Mapping[str, Column]) -> Extraction:
    """Make a row of each hashtag as `parse_hashtags` does, with one `key` for all that mention the election."""

    def fold(tag: Column) -> Column:
        return sf.when(tag.rlike(ELECTION_PATTERN), ELECTION).otherwise(tag)

    return _parse_tags(found, TAG_PATTERN, HASHTAG_PATTERN, "no hashtag", fold)


def parse_tickers(found: Mapping[str, Column]) -> Extraction:
    """Make a row of each ticker, its `key`: of a column that holds one, or of those in a text.

    A ticker is a $ and one to six Latin letters, perhaps with a dot or an underscore and one or two more, in upper
    case. With a letter, digit, underscore or $ next to it, it is none. In a column of tickers the
    $ may be missing.
    """
    return _parse_tags(found, TICKER_PATTERN, CASHTAG_PATTERN, "no ticker", sf.upper)


def _parse_tags(
    found: Mapping[str, Column], alone: str, inside: str, missing: str, fold: Callable[[Column], Column]
) -> Extraction:
    if "key" in found:
        tag = sf.regexp_extract(sf.lower(stripped(found["key"])), alone, 1)
        return Extraction(columns=(fold(tag).alias("key"),), faults=((sf.coalesce(tag, sf.lit("")) == "", missing),))
    text = found["text"].cast("string")
    tags = sf.transform(sf.regexp_extract_all(_plain(text), sf.lit(inside), sf.lit(1)), fold)
    return Extraction(columns=(sf.explode(tags).alias("key"),), faults=((_is_blank(text), "no text"),))


def _plain(text: Column) -> Column:
    return sf.regexp_replace(sf.regexp_replace(sf.lower(text), APOSTROPHE_PATTERN, "'"), NO_WORDS_PATTERN, " ")


def _is_blank(text: Column) -> Column:
    return sf.coalesce(stripped(text), sf.lit("")) == ""
