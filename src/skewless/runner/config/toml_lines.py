"""The line of every key in a TOML document, which Python's own reader does not report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import tomllib

Path = tuple[str, ...]
"""The place of a value: the keys that lead to it."""

_TOKEN: Final = re.compile(
    r'(?P<skip>[ \t\r]+|#[^\n]*)|(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<mark>[\[\]{}=,\n])|(?P<bare>[^\s\[\]{}=,#\"']+)",
    re.DOTALL,
)


def lines_of(document: str) -> dict[Path, int]:
    """Return the line of each key and of each table's header. The document must be valid TOML.

    >>> lines_of('n = 1\\n\\n[a.b]\\nc = { d = [1,\\n 2] }')
    {('n',): 1, ('a',): 3, ('a', 'b'): 3, ('a', 'b', 'c'): 4, ('a', 'b', 'c', 'd'): 4}
    """
    return _Scan(document).lines


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def _tokens(document: str) -> Iterator[_Token]:
    line = 1
    for found in _TOKEN.finditer(document):
        kind = str(found.lastgroup)
        if kind != "skip":
            yield _Token(kind, found[0], line)
        line += found[0].count("\n")
    yield _Token("mark", "\n", line)


class _Scan:
    def __init__(self, document: str) -> None:
        self.lines: dict[Path, int] = {}
        self._ahead = list(_tokens(document))[::-1]
        table: Path = ()
        while self._ahead:
            if self._at("\n"):
                self._ahead.pop()
            elif self._at("["):
                while self._at("["):  # two of them for an array of tables, which counts as one here
                    self._ahead.pop()
                table = self._key((), "]")
                while self._at("]"):
                    self._ahead.pop()
            else:
                self._pair(table)

    def _at(self, *marks: str) -> bool:
        return self._ahead[-1].kind == "mark" and self._ahead[-1].text in marks

    def _pair(self, table: Path) -> None:
        path = self._key(table, "=")
        self._ahead.pop()
        self._value(path)

    def _key(self, table: Path, end: str) -> Path:
        """Read a key up to its end, and record the first line of it and of the tables that it implies."""
        while not self._at(end):
            token = self._ahead.pop()
            for part in _parts(token):
                table = (*table, part)
                self.lines.setdefault(table, token.line)
        return table

    def _value(self, path: Path) -> None:
        if self._at("{"):
            self._ahead.pop()
            while not self._at("}"):
                if self._at(",", "\n"):
                    self._ahead.pop()
                else:
                    self._pair(path)
            self._ahead.pop()
        elif self._at("["):
            self._ahead.pop()
            while not self._at("]"):
                if self._at(",", "\n"):
                    self._ahead.pop()
                else:
                    self._value(path)
            self._ahead.pop()
        else:
            while not self._at("\n", ",", "}", "]"):  # a date and its time are two tokens
                self._ahead.pop()


def _parts(token: _Token) -> list[str]:
    if token.kind == "text":
        return [str(tomllib.loads(f"k = {token.text}")["k"])]
    return [part for part in token.text.split(".") if part]
