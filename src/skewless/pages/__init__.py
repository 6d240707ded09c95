"""What all pages of skewless share: one style, and a policy under which a browser loads and runs nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def read_style() -> str:
    """Return the style sheet."""
    return files(__name__).joinpath("style.css").read_text(encoding="utf-8")


def source_hash(content: str) -> str:
    """Return what a content security policy calls an inline script or style sheet.

    >>> source_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
