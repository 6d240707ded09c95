"""Words and hashtags of a text, character by character."""

from __future__ import annotations

import re
import unicodedata

from skewless.streams.twitter import STOP_WORDS

EMOJI_MARKS = "\ufe0e\ufe0f\u20e3"


def is_letter(character: str) -> bool:
    kind = unicodedata.category(character)
    return (kind[0] in "LM" or kind == "Nd") and character not in EMOJI_MARKS


def plain(text: str) -> str:
    """Drop addresses and users, one stretch at a time, from left to right."""
    text = text.lower()
    for written in ("&#39;", "&apos;", "\u2018", "\u2019", "\uff07"):
        text = text.replace(written, "'")
    whole, kept = text, ""
    while text:
        before = whole[len(whole) - len(text) - 1 :][:1] if len(text) < len(whole) else " "
        match = re.match(r"(?:https?://|www\.)[^ \t\n\r\f\v]+|&(?:amp|lt|gt|quot|nbsp);", text)
        if not is_letter(before) and before != "_":
            match = match or re.match("[@\uff20][a-z0-9_]+", text)
        if match:
            kept, text = kept + " ", text[match.end() :]
        else:
            kept, text = kept + text[0], text[1:]
    return kept


def words_of(text: str) -> list[str]:
    words, word = [], ""
    for character in plain(text) + " ":
        if is_letter(character) or character == "'":
            word += character
        else:
            words.append(word.strip("'"))
            word = ""
    return [word for word in words if word and word not in STOP_WORDS]


def hashtags_of(text: str) -> list[str]:
    tags: list[str] = []
    text = plain(text)
    position = 0
    while position < len(text):
        before = text[position - 1] if position else " "
        starts = text[position] in "#\uff03" and not (is_letter(before) or before in "_&")
        position += 1
        tag = tag_of(text[position:])
        if starts and any(unicodedata.category(character)[0] == "L" for character in tag):
            tags.append(tag)
            position += len(tag)
    return tags


def tag_of(text: str) -> str:
    """Return the letters, digits and underscores that a text starts with."""
    tag = ""
    for character in text:
        if not (is_letter(character) or character == "_"):
            break
        tag += character
    return tag if tag and unicodedata.category(tag[0])[0] != "M" else ""
