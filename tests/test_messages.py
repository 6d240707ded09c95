"""Messages of the library name parameters; only the command line names its flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import skewless

PACKAGE: Final = Path(skewless.__file__).parent
ALLOWED: Final = {
    "runner/config/names.py": r"--[a-z-]+",  # the one table of parameters, keys and flags
    "experiments/provenance.py": r"--(always|abbrev=12|dirty=\+|exclude=\*)",  # of git
}
FLAG: Final = re.compile(r"(?<![\w-])--[a-z]")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return the lines and the text literals of a module, without docstrings."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                yield child.lineno, child.value


def test_only_the_command_line_names_flags() -> None:
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("cli/"):
            continue
        found += [
            f"{name}:{line}: {text}"
            for line, text in texts(ast.parse(path.read_text(encoding="utf-8")))
            if FLAG.search(text) and not re.fullmatch(ALLOWED.get(name, ""), text)
        ]
    assert found == []
