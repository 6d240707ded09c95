"""A plain reader of InfluxDB's line protocol, character by character, as the server takes it apart."""

from __future__ import annotations

Point = tuple[str, dict[str, str], dict[str, int | float | str], int | None]


def split(text: str, separators: str, *, quotes: bool = False) -> list[str]:
    """Cut at separators that no backslash stands before and, if asked, that are not within quotes."""
    parts, part, quoted, i = [], "", False, 0
    while i < len(text):
        character = text[i]
        if character == "\\" and i + 1 < len(text):
            part += text[i : i + 2]
            i += 2
            continue
        if quotes and character == '"':
            quoted = not quoted
        if character in separators and not quoted:
            parts.append(part)
            part = ""
        else:
            part += character
        i += 1
    return [*parts, part]


def unescape(text: str, escapable: str) -> str:
    """Take away each backslash that stands before a character that can be escaped; all others stand for themselves."""
    plain, i = "", 0
    while i < len(text):
        if text[i] == "\\" and text[i + 1 : i + 2] and text[i + 1] in escapable:
            i += 1
        plain += text[i]
        i += 1
    return plain


def parse_value(text: str) -> int | float | str:
    if text.startswith('"'):
        assert text.endswith('"')
        return unescape(text[1:-1], '"\\')
    return int(text[:-1]) if text.endswith("i") else float(text)


def parse(line: str) -> Point:
    """Read one point: measurement, tags, fields, time."""
    head = split(line, " ")[0]  # quotes mean nothing in it
    fields, *times = split(line[len(head) + 1 :], " ", quotes=True)
    measurement, *tags = split(head, ",")
    pairs = [split(tag, "=") for tag in tags]
    values = [split(field, "=", quotes=True) for field in split(fields, ",", quotes=True)]
    assert len(times) <= 1
    assert all(len(pair) == 2 for pair in (*pairs, *values))
    return (
        unescape(measurement, ", "),
        {unescape(name, ",= "): unescape(value, ",= ") for name, value in pairs},
        {unescape(name, ",= "): parse_value(value) for name, value in values},
        int(times[0]) if times else None,
    )
