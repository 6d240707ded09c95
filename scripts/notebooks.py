"""Run the notebooks of the docs from top to bottom and keep what they show: `make notebooks`.

Cells run in this process, one after the other, as in a fresh kernel; the files are those of Jupyter.
"""

from __future__ import annotations

import ast
import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

NOTEBOOKS: Final = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def run_cells(notebook: dict[str, Any]) -> None:
    """Run all code cells; what they print, and the value of their last line, become their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        cell["execution_count"] = number
        cell["outputs"] = _run("".join(cell["source"]), names, number)


def _run(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)  # noqa: S102 - our own notebooks
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307 - as above
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_") and (shown := value._repr_html_()) is not None:
            data = {"text/html": _lines(shown), "text/plain": [f"<{type(value).__name__}>"]}
        outputs.append({"output_type": "execute_result", "execution_count": number, "data": data, "metadata": {}})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for path in NOTEBOOKS:
        print(path.name, file=sys.stderr)
        notebook = json.loads(path.read_text())
        run_cells(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
