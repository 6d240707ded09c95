"""Pages of the docs site that are made of other files: notebooks, examples, the change log, the papers' report.

A hook of MkDocs (`mkdocs.yml`).
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
_REPORT: Final = "experiments/report.html"  # the page of README.md there is index.html
_MOVED: Final = {
    "](../examples/": "](examples/",
    "](experiments/index.html)": f"]({_REPORT})",
    "](../experiments/index.html)": f"](../{_REPORT})",
    "](index.html)": "](report.html)",
    "](docs/": "](",
    "](SECURITY.md)": "](security.md)",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies elsewhere."""
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, page, content=as_markdown(json.loads(notebook.read_text()))))
    for example in sorted((ROOT / "examples").iterdir()):
        if example.is_file():
            files.append(File.generated(config, f"examples/{example.name}", abs_src_path=str(example)))
    for name in ("CHANGELOG.md", "SECURITY.md"):
        files.append(File.generated(config, name.lower(), content=(ROOT / name).read_text()))
    report = ROOT / "docs" / "experiments" / "index.html"
    if report.exists():
        files.append(File.generated(config, _REPORT, abs_src_path=str(report)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - a hook
    """Point links to where files are on the site."""
    for old, new in _MOVED.items():
        markdown = markdown.replace(old, new)
    return markdown


def as_markdown(notebook: dict[str, Any]) -> str:
    """Return a notebook as a page: its text, its code, and what it shows."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        text = "".join(output["text"])
    elif "text/html" in output["data"]:
        return f'<div class="output">{"".join(output["data"]["text/html"])}</div>'
    else:
        text = "".join(output["data"]["text/plain"])
    return f'<div class="output"><pre>{html.escape(text)}</pre></div>'
