"""The site of `make docs`: the documents of the repository as they are, with the root as Sphinx's source directory, so
that links are the same here and in a browser of the repository."""

import pathlib
import re
import sys

from sphinx.domains.c import CDomain

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import header_names  # noqa: E402

root = pathlib.Path(__file__).parents[2]
header = (root / "bindings/c/lsched.h").read_text()

project = "libsched"
version = release = ".".join(
    re.search(rf"define LSCHED_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md"]
myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # a page may begin a section at any level
    "misc.highlighting_failure",  # blocks leave things out with `…`
]
highlight_language = "text"

html_theme = "furo"
html_title = f"libsched {release}"
html_show_copyright = False
html_copy_source = False
html_extra_path = ["../../build/docs/extra"]  # Doxygen's pages, in headers/, and the way from the top to root_doc

LINK = re.compile(r"\[([^][]*)\]\(([^)#\s:]+)(?:#[^)]*)?\)")


def linked_elsewhere(page: pathlib.Path, link: re.Match) -> str:
    """A link to a header leads to Doxygen's page of it; one to a folder has no page to lead to."""
    target = (page.parent / link[2]).resolve()
    if target.is_dir():
        return link[1]
    if target.parent in (root / "bindings/c", root / "bindings/cpp") and target.suffix in (".h", ".hpp"):
        up = "../" * len(page.parent.relative_to(root).parts)
        name = target.name.replace("_", "__").replace(".", "_8")
        text = re.sub("`([^`]*)`", r"<code>\1</code>", link[1])
        return f'<a href="{up}headers/{name}.html">{text}</a>'
    return link[0]


CAPTION = re.compile(r"^\*\*(.+)\*\*$")
ENTRY = re.compile(r"^\* \[([^][]*)\]\(([^)]+)\.md\)")


def toctrees(text: str) -> str:
    """The lists of pages of docs/index.md, as Sphinx wants them; a browser of the repository would show its blocks."""
    captions: dict[str, list[str]] = {}
    for line in text.partition("\n## All pages\n")[2].splitlines():
        if caption := CAPTION.match(line):
            entries = captions.setdefault(caption[1], [])
        elif entry := ENTRY.match(line):
            entries.append(f"{entry[1]} <{entry[2]}>")
    return "".join("\n```{toctree}\n:caption: " + caption + "\n:hidden:\n" + "\n".join(entries) + "\n```\n"
                   for caption, entries in captions.items())


NAMES = {"docs/reference/c_api": header_names.names_of_c, "docs/reference/cpp": header_names.names_of_cpp}


class HeaderDomain(CDomain):
    """Keeps parameters of functions and macros out of the search and the index: a search for `world` finds the type."""

    def get_objects(self):
        return (each for each in super().get_objects() if each[2] not in ("functionParam", "macroParam"))


def setup(app):
    def read(_, document, source):
        page = root / f"{document}.md"
        if document == root_doc:
            source[0] += toctrees(source[0])
        elif document in NAMES:
            source[0] += header_names.section(NAMES[document](root / "build/docs/doxygen/xml"), "../../headers/")
        source[0] = LINK.sub(lambda link: linked_elsewhere(page, link), source[0])

    app.connect("source-read", read)
    app.add_domain(HeaderDomain, override=True)
