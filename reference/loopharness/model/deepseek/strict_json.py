"""JSON as servers write it: fast for what is sound, and without surprises for the rest."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson

__all__ = ["NotStrictJson", "parse"]


class NotStrictJson(ValueError):
    """The text is not JSON."""


def parse(text: str) -> Any:
    """The value of a JSON text. Raises `NotStrictJson`, also for NaN, infinities and nesting without measure.

    Half of a surrogate pair in an escape is accepted: servers cut emoji in two where their pieces end.
    """
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotStrictJson(str(error)) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
