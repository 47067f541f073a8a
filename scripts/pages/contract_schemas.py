"""The published JSON Schemas of the three files, made from the models so that they cannot disagree."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import BaseModel

from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.model_workflow import WorkflowContract

_BASE = "https://threegate.dev/schemas/"
SCHEMAS: Final[dict[str, tuple[type[BaseModel], str]]] = {
    "tool-contract.schema.json": (ToolContract, "ThreeGate tool contract"),
    "session-contract.schema.json": (SessionContract, "ThreeGate session contract"),
    "workflow-contract.schema.json": (WorkflowContract, "ThreeGate workflow contract"),
}


def schema_text(name: str) -> str:
    """The schema file `name` as it is published below schemas/."""
    model, title = SCHEMAS[name]
    schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    schema = _without_null(schema)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": _BASE + name}
    return json.dumps({**head, **schema, "title": title}, indent=2, ensure_ascii=True) + "\n"


def _without_null(value: Any) -> Any:
    """Without `null` as a type: a field is given or left out."""
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    cleaned = {key: _without_null(item) for key, item in value.items() if not (key == "default" and item is None)}
    options = cleaned.get("anyOf")
    if isinstance(options, list):
        left = [item for item in options if item != {"type": "null"}]
        if len(left) == 1:
            del cleaned["anyOf"]
            cleaned = {**left[0], **cleaned}
        else:
            cleaned["anyOf"] = left
    return cleaned
