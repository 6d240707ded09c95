"""The JSON schema of pipeline files, for editors: made of the tables, kept beside them, and never edited by hand.

`python -m skewless.runner.config.schema` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from skewless.runner.config.tables import Definition

KEPT: Final = Path(__file__).with_name("pipeline.schema.json")


def make_schema() -> dict[str, Any]:
    """Make the schema of the tables."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Definition.model_json_schema()}


def written(schema: dict[str, Any]) -> str:
    """Write a schema as it is kept."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    KEPT.write_text(written(make_schema()), encoding="utf-8")
