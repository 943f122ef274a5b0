"""check_reference.py ROOT [--xml FOLDER] [--search FILE]: checks that the reference has every exported function.

The exported functions are the symbols of tests/abi/symbols*.txt, except for the symbols of version node LSCHED_PRIVATE.
Each function must be declared in a header, directly below a comment that Doxygen reads. With --xml, Doxygen's output in
FOLDER must describe each function. With --search, the index of Sphinx's search in FILE (searchindex.js) must have the
name of each function.
"""

import argparse
import json
import pathlib
import re
import sys
import xml.etree.ElementTree


def exported(root: pathlib.Path) -> list[str]:
    lines = [line for each in sorted((root / "tests/abi").glob("symbols*.txt")) for line in each.read_text().split()]
    return [line.split("@")[0] for line in lines if not line.endswith("@LSCHED_PRIVATE")]


def is_documented(symbol: str, headers: str) -> bool:
    declaration = re.search(rf"^(?:LSCHED_API|LSCHED_CHECKED)[^;]*?\b{symbol}\(", headers, re.MULTILINE)
    if declaration is None:
        return False
    above = headers[: declaration.start()]
    return above.endswith("*/\n") and above[above.rfind("/*") :].startswith("/**")


def described_by_doxygen(folder: pathlib.Path) -> set[str]:
    described = set()
    for file in folder.glob("*.xml"):
        for member in xml.etree.ElementTree.parse(file).iter("memberdef"):
            texts = (member.find("briefdescription"), member.find("detaileddescription"))
            if any("".join(text.itertext()).strip() for text in texts if text is not None):
                described.add(member.findtext("name"))
    return described


def found_by_search(file: pathlib.Path) -> set[str]:
    """Returns the top-level names of the index. This excludes parameters, which the index has below their functions."""
    index = json.loads(file.read_text(encoding="utf-8").removeprefix("Search.setIndex(").removesuffix(")"))
    return {entry[4] for entry in index["objects"].get("", [])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--xml", type=pathlib.Path)
    parser.add_argument("--search", type=pathlib.Path)
    given = parser.parse_args()
    symbols = exported(given.root)
    if not symbols:
        sys.exit(f"no symbols under {given.root}")
    headers = "".join(each.read_text() for each in sorted((given.root / "bindings/c").glob("lsched*.h")))
    missing = [f"{symbol}: no /** comment right above its declaration" for symbol in symbols
               if not is_documented(symbol, headers)]
    if given.xml is not None:
        described = described_by_doxygen(given.xml)
        missing += [f"{symbol}: not described in {given.xml}" for symbol in symbols if symbol not in described]
    if given.search is not None:
        found = found_by_search(given.search)
        missing += [f"{symbol}: not in {given.search}" for symbol in symbols if symbol not in found]
    if missing:
        sys.exit("symbols that are not in the reference:\n  " + "\n  ".join(missing))
    return 0


if __name__ == "__main__":
    sys.exit(main())
