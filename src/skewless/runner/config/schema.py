"""The JSON schema of pipeline files, for editors: generated from the tables and stored beside them.

`python -m skewless.runner.config.schema` writes it again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from skewless.runner.config.tables import Definition

SCHEMA_FILE: Final = Path(__file__).with_name("pipeline.schema.json")


def make_schema() -> dict[str, Any]:
    """Return the schema of the tables."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Definition.model_json_schema()}


def as_text(schema: dict[str, Any]) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(as_text(make_schema()), encoding="utf-8")
