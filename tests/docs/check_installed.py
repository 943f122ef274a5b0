"""check_installed.py PREFIX DOCDIR: checks that the documents of an installed tree are complete.

The output of `lsched doctor`, the man pages (all help texts) and the headers refer to pages, such as docs/start.md.
Each of these pages must be in DOCDIR (relative to PREFIX). Each link of an installed page must lead to an installed
file.
"""

import pathlib
import re
import subprocess
import sys

NAMERS = ("include/**/lsched*.h*", "share/man/man1/lsched*.1")
NAMED = re.compile(r"docs/[\w./-]+\.(?:md|c|cc|py|alg|sched|svg)\b")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)  # blocks of code, which have no links


def texts_that_name_pages(prefix: pathlib.Path) -> dict[str, str]:
    texts = {str(file.relative_to(prefix)): file.read_text(encoding="utf-8").replace("\\-", "-")  # in man pages, each -
                                                                                                  # is escaped
             for pattern in NAMERS for file in sorted(prefix.glob(pattern))}
    command = prefix / "bin/lsched"
    if command.exists():
        texts["lsched doctor"] = subprocess.run([command, "doctor"], capture_output=True, text=True, timeout=60,
                                                check=False).stdout
    return texts


def main() -> None:
    prefix, documents = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1], sys.argv[2])
    texts = texts_that_name_pages(prefix)
    pages = sorted(documents.rglob("*.md"))
    problems = [f"{namer} names {name}, which is not installed" for namer, text in texts.items()
                for name in sorted(set(NAMED.findall(text))) if not (documents / name).is_file()]
    problems += [f"{page.relative_to(documents)}: the link to {target} leads nowhere"
                 for page in pages for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
                 if not (page.parent / target).exists()]
    if not texts or not pages:
        problems.append(f"{len(texts)} texts that name pages, {len(pages)} pages below {prefix}")
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
