"""check_blocks.py PAGE --build BUILD [--python PYTHON] [--torch]: runs the commands of a page and compares the output.
   check_blocks.py --script PAGE...: prints the commands of the pages, including commands that install software, as a
   bash script (.ci/newcomer).

A comment before each fenced block of a page defines how the block is checked:

    <!-- run -->                the commands of an `sh` block. They run in a scratch directory, block after block as in
                                one terminal, and must end with status 0. The software of BUILD is used in place of the
                                software that the page installs
    <!-- run: fails -->         like run, but the commands must end with another status
    <!-- run: torch -->         like run, but only with --torch (if PYTHON has torch)
    <!-- printed by: COMMAND -->  a `text` block: COMMAND is run and must print these lines, among others
    <!-- file: NAME -->         the block is written to file NAME of the scratch directory, for later commands
    <!-- not run: REASON -->    the block is not run, for one of the reasons that CONTRIBUTING.md lists

A `text` block directly after commands is the complete output of these commands: standard output and standard error.
Ranks print in any order, so that the lines may have any order. The page shows the output of one run. A comment before
the block names the parts that differ between runs or machines. All other parts must be equal, except for widths of
columns:

    <!-- varies: decimals -->   numbers with a decimal point or an exponent match all numbers of that form
    <!-- varies: numbers -->    like decimals, and also whole numbers
    <!-- varies: "4711", "no core is free" -->  each of these numbers matches all numbers
                               of the same form, and each of these texts matches any text
"""

import argparse
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TABLE = (SOURCE / "CONTRIBUTING.md").read_text().split("| reason | means |\n|---|---|\n")[1].split("\n\n")[0]
REASONS = re.findall(r"^\| ([^|]+) \|", TABLE, re.MULTILINE)
assert 0 < len(REASONS) <= 10, REASONS
FENCE = re.compile(r"^( *)```(\w*)\s*$")
MARK = re.compile(r"^ *<!-- (run|file|printed by|not run)(?:: (.*))? -->$")
VARIES = re.compile(r"^ *<!-- varies: (.+) -->$")
VARIATION = re.compile(r'"([^"]+)"|(decimals|numbers)')
INTEGER = r"[-+]?\d+"
DECIMAL = r"[-+]?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)"
WHOLE_WORD = r"(?<![\w.])(?:{})(?!\w|\.\d)"  # matches only whole words: no part of 0.1.0, f32 or 12
LIMIT = 400  # time limit of a block, in seconds
HEADERS = ("bindings/c/*.h", "bindings/cpp/*.hpp")


class Block(NamedTuple):
    line: int
    language: str
    text: str
    what: str  # kind of the block: run, printed by, file, not run, unended, or "" (no comment)
    detail: str
    follows: bool  # whether no text stands between the previous block and this block
    varies: str  # the list of the `varies` comment, or ""


def blocks_of(page: str) -> Iterator[Block]:
    mark, varies, begin, follows = ("", ""), "", 0, False
    language, indent, inside, text = "", "", False, []
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if inside:
            if fence and not fence[2]:
                yield Block(begin, language, "\n".join(text) + "\n", *mark, follows, varies)
                mark, varies, inside, follows = ("", ""), "", False, True
            else:
                text.append(line.removeprefix(indent))
        elif fence:
            begin, indent, language, inside, text = number, fence[1], fence[2], True, []
        elif found := MARK.match(line):
            mark = (found[1], found[2] or "")
        elif found := VARIES.match(line):
            varies = found[1]
        elif line.strip():
            mark, varies, follows = ("", ""), "", False
    if inside:
        yield Block(begin, language, "\n".join(text), "unended", "", False, "")


def problem_of(block: Block, is_output: bool) -> str:
    if block.what == "unended":
        return "the block does not end"
    if block.varies and not is_output and block.what != "printed by":
        return "`varies` is for the output of commands"
    if VARIATION.sub("", block.varies).strip(", "):
        return f'`varies: {block.varies}` is none of decimals, numbers and "TEXT"'
    if absent := [text for text, _ in VARIATION.findall(block.varies) if text not in block.text]:
        return f'"{absent[0]}" varies, and is not in the block'
    if is_output or (block.what == "file" and block.detail):
        return ""
    if block.what == "not run":
        return "" if block.detail in REASONS else f"`{block.detail}` is not one of the reasons: {', '.join(REASONS)}"
    if block.what == "printed by":
        return "" if block.language == "text" and block.detail else "`printed by: COMMAND` is for `text` blocks"
    if block.what == "run":
        if block.language != "sh":
            return "only `sh` blocks are run; others are files"
        return "" if block.detail in ("", "fails", "torch") else f"`run: {block.detail}` is unknown"
    return "the block has no comment that says how to run it"


def others_like(text: str) -> str:
    """Returns a pattern for the numbers of the same form as `text`, or for any text if `text` is not a number."""
    return next((form for form in (INTEGER, DECIMAL) if re.fullmatch(form, text)), r".+")


def varying(varies: str) -> re.Pattern:
    """Returns a pattern for the parts of a line that may differ between runs."""
    forms = {"decimals": DECIMAL, "numbers": f"{DECIMAL}|{INTEGER}"}
    parts = [forms.get(kind) or re.escape(text) for text, kind in VARIATION.findall(varies)]
    return re.compile("|".join(map(WHOLE_WORD.format, parts)) or r"(?!)")


def as_pattern(line: str, varies: str) -> re.Pattern:
    """Returns a pattern for the printed lines that match `line` of the page."""
    pattern, at = "", 0
    for found in varying(varies).finditer(line):
        pattern += re.escape(line[at : found.start()]) + others_like(found[0])
        at = found.end()
    pattern += re.escape(line[at:])
    if varies:  # numbers with other widths move the columns
        pattern = re.sub(r"(\\ )+", r" +", pattern)
        pattern = re.sub(r"^ \+", r" *", pattern)
    return re.compile(pattern + r"\Z")


def difference(expected: str, printed: str, varies: str, is_part: bool = False) -> str:
    """Returns the lines that only one of the two texts has. The order of lines does not matter. Equal lines are matched
    first, and long lines before short lines. If `is_part` is true, `printed` may have more lines than `expected`."""
    left = [line.rstrip() for line in printed.splitlines()]
    missing = []
    wanted = [line.rstrip() for line in expected.splitlines()]
    for line in sorted(wanted, key=lambda each: (each not in left, -len(each))):
        fits = [line] if line in left else [each for each in left if as_pattern(line, varies).match(each)]
        if fits:
            left.remove(fits[0])
        else:
            missing.append(line)
    extra = [] if is_part else [line for line in left if line]
    said = [f"  not printed: {line}" for line in missing if line]
    return "\n".join(said + [f"  printed:     {line}" for line in (extra or (left if said else []))])


def installed(build: pathlib.Path, source: pathlib.Path, prefix: pathlib.Path) -> dict[str, str]:
    """Creates the tree of `cmake --install` from links to the build tree. Returns the environment variables by
    which programs find the tree."""
    cache = (build / "CMakeCache.txt").read_text()
    libraries = prefix / re.search(r"^CMAKE_INSTALL_LIBDIR:\w+=(.*)$", cache, re.MULTILINE)[1]
    files = {prefix / "bin": build.glob("bin/lsched*"), libraries: build.glob("lib/libsched*.so*"),
             libraries / "pkgconfig": build.glob("bindings/*/libsched*.pc"),
             prefix / "include": itertools.chain.from_iterable(map(source.glob, HEADERS))}
    for folder, targets in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        for target in targets:  # a .pc file gets the prefix from its own path, so a link does not work
            if target.suffix == ".pc":
                shutil.copy(target, folder)
            else:
                (folder / target.name).symlink_to(target)
    return {"PKG_CONFIG_PATH": str(libraries / "pkgconfig"), "LD_RUN_PATH": str(libraries),
            "PYTHONPATH": str(build / "python"), "CPATH": str(prefix / "include"), "LIBRARY_PATH": str(libraries)}


class Terminal:
    """Runs blocks one after the other in a scratch directory. Exported variables and the current directory persist."""

    def __init__(self, scratch: pathlib.Path, environment: dict[str, str], path: list[str]) -> None:
        self.place = scratch / "work"
        self.place.mkdir()
        self.state = scratch / "state"
        self.state.write_text("")
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("LSCHED_")},
                            **environment, "PATH": os.pathsep.join([*path, os.environ["PATH"]])}

    def run(self, commands: str) -> tuple[int, str]:
        leave = f"trap '{{ declare -px; echo cd \"$PWD\"; }} >{self.state}' EXIT"
        script = f"source {self.state}\n{leave}\nset -e\n{commands}"
        with subprocess.Popen(["bash", "-c", script], cwd=self.place, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              start_new_session=True) as bash:
            try:
                printed, _ = bash.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(bash.pid, signal.SIGKILL)
                printed = f"{bash.communicate()[0]}\nnot finished after {LIMIT} s"
        return bash.returncode, printed


def tools(folder: pathlib.Path, python: str) -> None:
    """Writes wrapper scripts to `folder`. They start `python`, and torchrun if it is installed beside `python`. They
    start `mpiexec` and `mpicc` of MPICH, because Debian's links may point to another MPI. Compilers treat warnings as
    errors."""
    folder.mkdir()
    warnings = "-Wall -Wextra -Werror"
    names = {"python": (python, ""), "torchrun": (shutil.which(pathlib.Path(python).parent / "torchrun"), ""),
             "mpiexec": (shutil.which("mpiexec.mpich"), ""), "mpicc": (shutil.which("mpicc.mpich"), warnings),
             "cc": (shutil.which("cc"), warnings), "c++": (shutil.which("c++"), warnings)}
    for name, (program, words) in names.items():
        if program is not None:
            (folder / name).write_text(f'#!/bin/sh\nexec "{program}" {words} "$@"\n')
            (folder / name).chmod(0o755)


def check(page: pathlib.Path, given: argparse.Namespace) -> list[str]:
    problems = []
    number = {"run": 0, "printed by": 0, "file": 0, "not run": 0}
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        tools(scratch / "tools", given.python)
        environment = installed(given.build.resolve(), SOURCE, scratch / "prefix")
        terminal = Terminal(scratch, environment, [str(scratch / "tools"), str(scratch / "prefix/bin"),
                                                   str(given.build.resolve() / "examples")])
        printed = None  # output of the last block of commands, or None if that block was not run
        may_be_output = False
        for block in blocks_of(page.read_text()):
            here = f"{page.name}:{block.line}"
            is_output = may_be_output and block.follows and block.language == "text" and not block.what
            if problem := problem_of(block, is_output):
                problems.append(f"{here}: {problem}")
                continue
            if is_output:
                if printed is not None and (problem := difference(block.text, printed, block.varies)):
                    problems.append(f"{here}: other output\n{problem}")
                may_be_output = False
                continue
            number[block.what] += 1
            may_be_output, printed = block.what in ("run", "not run"), None
            if block.what == "file":
                (terminal.place / block.detail).parent.mkdir(parents=True, exist_ok=True)
                (terminal.place / block.detail).write_text(block.text)
            elif block.what == "printed by":
                _, printed = terminal.run(block.detail)
                if problem := difference(block.text, printed, block.varies, is_part=True):
                    problems.append(f"{here}: other output\n{problem}")
            elif block.what == "run" and (block.detail != "torch" or given.torch):
                status, printed = terminal.run(block.text)
                if (status != 0) != (block.detail == "fails"):
                    problems.append(f"{here}: status {status}\n{printed}")
    if given.counts:
        run = number["run"] + number["printed by"]
        print(f"{page.name}: {run} run, {number['file']} files, {number['not run']} not run")
    return problems


def script_of(page: pathlib.Path) -> str:
    """Returns the files and commands of a page as a script. Omits blocks that need a cluster, a GPU or much time."""
    lines = [f"# --- {page}"]
    for block in blocks_of(page.read_text()):
        if block.what == "file":
            lines.append(f"cat > {block.detail} <<'end of the file'\n{block.text}end of the file")
        elif block.what == "run" and block.detail == "fails":
            lines.append(f"if (set -e\n{block.text}); then echo 'this did not fail'; exit 1; fi")
        elif block.what == "run" or block.detail == "installs":
            lines.append(block.text)
        elif block.what == "not run":
            lines.append(f"# {block.detail}: line {block.line}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path, nargs="+")
    parser.add_argument("--script", action="store_true", help="print a script and do nothing")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--counts", action="store_true", help="also print the number of blocks of each kind")
    given = parser.parse_args()
    if given.script:
        print("set -e\n" + "\n".join(map(script_of, given.page)), end="")
        return
    if given.build is None:
        parser.error("--build is missing")
    sys.exit("\n".join(problem for page in given.page for problem in check(page, given)) or 0)


if __name__ == "__main__":
    main()
