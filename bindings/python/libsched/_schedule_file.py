"""The buffers that a schedule file declares (docs/reference/schedule_file.md)."""

from __future__ import annotations

import re

from ._words import DTYPES

_LINE = re.compile(r"[^\n]+")
_RANK = re.compile(r"[ \t\r]*rank[ \t\r]+(\d+)[ \t\r]+of[ \t\r]+(\d+)\b")
_BUFFER = re.compile(r"[ \t\r]*buffer[ \t\r]+\d+[ \t\r]+(\w+)[ \t\r]+\w+[ \t\r]+(\w+)[ \t\r]+(\d+)\b")
_NUMBERS = {"i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "u64": "uint64", "f16": "float16",
            "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


def declared_buffers(text: str, rank: int, ranks: int, role: str) -> list[tuple[int, int]] | None:
    """Returns (number of elements, dtype) of each buffer with this role, "input" or "output", on one rank.

    Returns None if the text has no schedule of that rank. The library will then refuse the text.
    """
    found = None
    is_mine = False
    for line in _LINE.findall(text):
        if head := _RANK.match(line):
            is_mine = (int(head[1]), int(head[2])) == (rank, ranks)
            found = [] if is_mine else found
        elif is_mine and (buffer := _BUFFER.match(line)) and buffer[1] == role:
            found.append((int(buffer[3]), DTYPES.get(_NUMBERS.get(buffer[2], ""), 0)))
    return found
