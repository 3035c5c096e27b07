"""Keys that stand for content."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def content_key(description: Mapping[str, Any]) -> str:
    """16 hexadecimal digits of the sha256 of the canonical JSON text."""
    return text_key(canonical(description))


def canonical(description: Mapping[str, Any]) -> str:
    """The canonical JSON text: sorted keys, no spaces, ASCII."""
    return json.dumps(description, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def text_key(text: str) -> str:
    """16 hexadecimal digits of the sha256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
