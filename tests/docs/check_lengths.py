"""check_lengths.py FOLDER FILE=LINES...: fails if program FILE has more than LINES lines. Blank lines and block
comments that begin at the margin are not counted."""

import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1])
problems = []
for word in sys.argv[2:]:
    name, most = word.split("=")
    text = re.sub(r"^/\*.*?\*/$", "", (folder / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = sum(1 for line in text.splitlines() if line.strip())
    if lines > int(most):
        problems.append(f"{name}: {lines} lines, not {most}")
sys.exit("\n".join(problems) or 0)
