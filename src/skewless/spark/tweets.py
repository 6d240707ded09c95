"""Tweets as Spark sees them: a text becomes its words, or its hashtags."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as sf

from skewless.spark.parsed import Parsed, stripped
from skewless.streams.twitter import (
    APOSTROPHE_PATTERN,
    HASHTAG_PATTERN,
    NO_WORDS_PATTERN,
    STOP_WORDS,
    TAG_PATTERN,
    WORD_PATTERN,
)


def parse_words(found: Mapping[str, Column]) -> Parsed:
    """Make a row of each word of the text, its `key`.

    A word is a run of letters and digits of any script, with apostrophes inside, in lower case. Stop words, addresses
    and names of users (`@someone`) are none; a hashtag is the words in it.
    """
    text = found["text"].cast("string")
    words = sf.regexp_extract_all(_plain(text), sf.lit(WORD_PATTERN), sf.lit(0))
    meaningful = sf.filter(words, lambda word: ~word.isin(*STOP_WORDS))
    return Parsed(columns=(sf.explode(meaningful).alias("key"),), faults=((_is_blank(text), "no text"),))


def parse_hashtags(found: Mapping[str, Column]) -> Parsed:
    """Make a row of each hashtag, its `key`: of a column that holds one, or of those in a text.

    A hashtag is a # and letters, digits and underscores of any script, at least one of them a letter, in lower case;
    an emoji ends it. The # must not stand behind such a character, nor behind an &, where HTML writes a character. In a
    column of hashtags the # may be missing, and digits will do.
    """
    if "key" in found:
        tag = sf.regexp_extract(sf.lower(stripped(found["key"])), TAG_PATTERN, 1)
        return Parsed(columns=(tag.alias("key"),), faults=((sf.coalesce(tag, sf.lit("")) == "", "no hashtag"),))
    text = found["text"].cast("string")
    tags = sf.regexp_extract_all(_plain(text), sf.lit(HASHTAG_PATTERN), sf.lit(1))
    return Parsed(columns=(sf.explode(tags).alias("key"),), faults=((_is_blank(text), "no text"),))


def _plain(text: Column) -> Column:
    return sf.regexp_replace(sf.regexp_replace(sf.lower(text), APOSTROPHE_PATTERN, "'"), NO_WORDS_PATTERN, " ")


def _is_blank(text: Column) -> Column:
    return sf.coalesce(stripped(text), sf.lit("")) == ""
