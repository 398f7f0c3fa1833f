"""Counting, cutting, quoting and fingerprinting text, in the units that the tape's rules name.

A Python string is a sequence of code points, and that is what every size of the tape counts. Folding counts
UTF-16 units instead, as the programs do whose thresholds it keeps. A lone surrogate is one of either.

Rules: TP-54, TP-61, TP-62, TP-63, RE-43, RE-44.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from json import dumps, loads
from math import isfinite
from typing import Final, Literal, NamedTuple, NoReturn

from loopspec.values import Json, Record

SHORTENED: Final = "…[label shortened]"
PATH_LIMIT: Final = 180
WINDOW_LIMIT: Final = 140
NAME_LIMIT: Final = 80

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BREAKS: Final = re.compile("[\n\r\t]")
_EVERY_BREAK: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN_NAME: Final = re.compile(r"[\w.:/@#+-]+(?: [\w.:/@#+-]+)*")
_FORGED_READ: Final = re.compile(r'"|\), | lines, ')
_INDEX_KEY: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LARGEST_INDEX: Final = 2**32 - 2

KeyOrder = Literal["code-point", "collated"]


# -- units ---------------------------------------------------------------------------------------------------


def units(text: str) -> int:
    """How many UTF-16 units the text has."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def unit_slice(text: str, start: int, end: int | None = None) -> str:
    """The part between two UTF-16 offsets; a cut pair leaves a lone surrogate, as it does in the logs."""
    if text.isascii():
        return text[start:end]
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded[2 * start : None if end is None else 2 * end].decode("utf-16-le", "surrogatepass")


def whole(text: str) -> str:
    """The text with split surrogate pairs joined: two blocks may hold the halves of one character."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def utf8(text: str) -> bytes:
    """The bytes that are hashed and counted; a lone surrogate becomes `EF BF BD` (TP-54)."""
    return _SURROGATE.sub("\ufffd", text).encode()


def fingerprint(text: str, digits: int) -> str:
    """The first hexadecimal digits of the SHA-256 of a text (TP-54 uses 12, TP-61 uses 8)."""
    return sha256(utf8(text)).hexdigest()[:digits]


def lines_in(text: str) -> int:
    """TP-61  0 for empty text, else one more than the number of line feeds."""
    return text.count("\n") + 1 if text else 0


# -- content -------------------------------------------------------------------------------------------------


def text_parts(content: Json) -> list[str]:
    """The texts of the text blocks of some content, in order; anything malformed contributes nothing."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        return []
    return [
        block["text"]
        for block in content
        if isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]


def joined_text(content: Json) -> str:
    """All text blocks with nothing between them (TP-53, TP-61)."""
    return whole("".join(text_parts(content)))


# -- labels --------------------------------------------------------------------------------------------------


def label(text: str, limit: int) -> str:
    """TP-62  A bounded one-line label: JSON-quoted when it holds CR, LF or TAB, then cut to `limit` code points."""
    return bounded(quoted(text) if _BREAKS.search(text) else text, limit)


def bounded(text: str, limit: int) -> str:
    """TP-62  `text`, or its first `limit` - 24 code points and a marker."""
    return text if len(text) <= limit else text[: limit - 24] + SHORTENED


def safe_name(name: str) -> str:
    """TP-58  A tool name that cannot end its line or imitate a locator: quoted unless it is an ordinary name."""
    plain = _PLAIN_NAME.fullmatch(name) is not None
    return bounded(name if plain else one_line(name), NAME_LIMIT)


def safe_path(path: str) -> str:
    """TP-58  A path label that cannot end its line or imitate a locator or another observation."""
    odd = _EVERY_BREAK.search(path) or _FORGED_READ.search(path)
    return bounded(one_line(path) if odd else path, PATH_LIMIT)


def one_line(text: str) -> str:
    """The text as a JSON string without anything that breaks a line."""
    return _EVERY_BREAK.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted(text))


def quoted(text: str) -> str:
    """The text as a JSON string, non-ASCII kept, lone surrogates escaped."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", dumps(text, ensure_ascii=False))


# -- JSON texts ----------------------------------------------------------------------------------------------


def parsed(text: str) -> Json:
    """The JSON value of a text. Raises `ValueError` for everything that is not JSON, NaN and depth included."""
    try:
        return loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def canonical_json(value: Json, order: KeyOrder = "code-point") -> str:
    """TP-63  Compact JSON text with the keys of every object in one order.

    Integer-like keys come first, ascending; the others by code point, or, with `collated`, approximately as a
    western locale sorts them: ignoring case first, lower case before upper, punctuation before letters.
    """
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: _key_rank(key, order))
        return "{" + ",".join(f"{quoted(key)}:{canonical_json(value[key], order)}" for key in keys) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(canonical_json(item, order) for item in value) + "]"
    return scalar_json(value)


def compact_json(value: Json) -> str:
    """Compact JSON text with keys as they come, non-ASCII kept (RC-14)."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{quoted(key)}:{compact_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(map(compact_json, value)) + "]"
    return scalar_json(value)


def scalar_json(value: Json) -> str:
    """The JSON text of null, a boolean or a number; numbers in their shortest form."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value)


def _key_rank(key: str, order: KeyOrder) -> tuple[int, int, str, str]:
    if _INDEX_KEY.fullmatch(key) and int(key) <= _LARGEST_INDEX:
        return (0, int(key), "", "")
    return (1, 0, key, "") if order == "code-point" else (1, 0, key.lower(), key.swapcase())


def number_text(number: float) -> str:
    """A number as JavaScript prints it: shortest digits, `1e+21` from there on, `1e-7` below 0.000001."""
    if isinstance(number, int) and abs(number) < 2**53:
        return str(number)
    try:
        double = float(number)
    except OverflowError:
        return "null"
    if not isfinite(double):
        return "null"
    if double == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(double)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent
    if len(text) <= point <= 21:
        body = text + "0" * (point - len(text))
    elif 0 < point <= 21:
        body = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + text
    else:
        power = point - 1
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        body = f"{text[0]}{fraction}e{'+' if power > 0 else '-'}{abs(power)}"
    return f"-{body}" if sign else body


class Outcome(NamedTuple):
    """What a `tool/result` answers, in either format (TP-07, S-MSG-3, S-MSG-4)."""

    call_id: str
    content: Json
    failed: bool


def outcome(data: Record) -> Outcome:
    """The call, the content and the flag of a result: in the message itself, or in its one block in format 0."""
    message = data["message"]
    if message["role"] == "tool":
        return Outcome(message["toolCallId"], message["content"], message.get("isError") is True)
    block = message["content"][0]
    return Outcome(block["toolCallId"], block["content"], block.get("isError") is True)


def origin(event: Record) -> bool:
    """RC-01  An original record: it was appended, not put in the place of others."""
    return bool(event.get("surfaceOp", "append") == "append")
