"""check_reference.py ROOT [--xml FOLDER]: every function that the libraries export is in the reference.

Exported are the symbols of tests/abi/symbols*.txt, but those of the node LSCHED_PRIVATE. Each has to be declared in a
header, right below a comment that Doxygen reads; with --xml also Doxygen's own output has to describe it.
"""

import argparse
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--xml", type=pathlib.Path)
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
    if missing:
        sys.exit("symbols that are not in the reference:\n  " + "\n  ".join(missing))
    return 0


if __name__ == "__main__":
    sys.exit(main())
