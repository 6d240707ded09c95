"""Docstrings for the API reference: what follows a list of parameters without a heading gets one.

Our docstrings end in doctests, or in a paragraph, right behind the parameters; numpydoc's parsers take that for more
parameters. An extension of Griffe (`mkdocs.yml`).
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_RULE = re.compile(r"^-{3,}$")


class NamedSections(Extension):
    """Puts a heading in front of examples and remarks that have none."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = with_headings(obj.docstring.value)


def with_headings(text: str) -> str:
    r"""Return a docstring with headings.

    >>> print(with_headings("Add.\n\nParameters\n----------\na : int\n    A number.\n\n>>> 1 + 1\n2"))
    Add.
    <BLANKLINE>
    Parameters
    ----------
    a : int
        A number.
    <BLANKLINE>
    Examples
    --------
    >>> 1 + 1
    2
    """
    lines, out, section = text.splitlines(), [], ""
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        starts = number == 0 or not lines[number - 1].strip()
        if _RULE.match(following):
            section = line.strip()
        elif starts and line.startswith(">>>") and section != "Examples":
            out += ["Examples", "--------"]
            section = "Examples"
        elif (section == "Parameters" and starts and line[:1].strip() and not following.startswith(" ")) or (
            section == "Examples" and starts and line[:1].strip() and not line.startswith((">>>", "`"))
        ):
            out += ["Notes", "-----"]
            section = "Notes"
        out.append(line)
    return "\n".join(out)
