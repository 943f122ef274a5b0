"""doxygen_filter.py HEADER: the header as Doxygen reads it.

A comment behind a member describes that member, each of the four lines that a function states (Thread, Blocks, Memory,
Errors) is a line of the page, and what stands in columns stays in columns. No line is added or removed.
"""

import pathlib
import re
import sys

BEHIND = re.compile(r"(?<=[;,}\w]) +/\* ")
STATED = re.compile(r"^ \* (?=(Thread|Blocks|Memory|Errors)[,:])")
COLUMNS = re.compile(r"^ \*   (?=\S.* {3,}\S)")


def seen(line: str) -> str:
    if not line.startswith(("/*", "#")):
        line = BEHIND.sub(" /**< ", line, count=1)
    return COLUMNS.sub(" *       ", STATED.sub(" * <br>", line))


sys.stdout.write("".join(map(seen, pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines(True))))
