"""The names that the headers declare, as directives of Sphinx's domains for C and C++. The site's search and its index
find names through these directives. Each leads to the full description, which is Doxygen's page.
"""

import pathlib
import re
import xml.etree.ElementTree
from collections.abc import Iterator
from typing import NamedTuple

DIRECTIVES = {"function": "c:function", "define": "c:macro", "enum": "c:enum", "typedef": "c:type"}
SPECIAL = re.compile(r"([\\`*_\[\]<>{}#|])")  # of Markdown


class Name(NamedTuple):
    directive: str
    declaration: str
    brief: str
    page: str  # of Doxygen, with the anchor


def brief_of(element: xml.etree.ElementTree.Element) -> str:
    text = element.find("briefdescription")
    words = "" if text is None else " ".join("".join(text.itertext()).split())
    return SPECIAL.sub(r"\\\1", words)


def member(element: xml.etree.ElementTree.Element) -> Name:
    kind, name = element.get("kind"), element.findtext("name")
    declaration = name
    if kind == "function":
        declaration = re.sub(r"^(static |inline )+", "", element.findtext("definition"))
        declaration += element.findtext("argsstring")
    elif kind == "define" and (parameters := [each.text or "" for each in element.iter("defname")]):
        declaration = f"{name}({', '.join(parameters)})"
    page, _, anchor = element.get("id").rpartition("_1")
    return Name(DIRECTIVES[kind], declaration, brief_of(element), f"{page}.html#{anchor}")


def compounds(folder: pathlib.Path, kinds: tuple[str, ...]) -> Iterator[xml.etree.ElementTree.Element]:
    for file in sorted(folder.glob("*.xml")):
        for element in xml.etree.ElementTree.parse(file).iter("compounddef"):
            if element.get("kind") in kinds:
                yield element


def names_of_c(folder: pathlib.Path) -> list[Name]:
    structs = [Name("c:struct", element.findtext("compoundname"), brief_of(element), f"{element.get('id')}.html")
               for element in compounds(folder, ("struct",)) if "::" not in element.findtext("compoundname")]
    members = [member(element) for header in compounds(folder, ("file",))
               if header.findtext("compoundname").endswith(".h")
               for element in header.iter("memberdef") if element.get("kind") in DIRECTIVES]
    declared = {each.declaration for each in structs + members if each.directive != "c:type"}
    opaque = [each for each in members if each.directive == "c:type" and each.declaration not in declared]
    return structs + [each for each in members if each.directive != "c:type"] + opaque


def names_of_cpp(folder: pathlib.Path) -> list[Name]:
    return [Name("cpp:class", element.findtext("compoundname").replace("::cpp::", "::"), brief_of(element),
                 f"{element.get('id')}.html")
            for element in compounds(folder, ("class", "struct"))
            if element.findtext("compoundname").startswith("lsched::") and "<" not in element.findtext("compoundname")]


def section(names: list[Name], headers: str) -> str:
    """A section of a page of docs/reference."""
    if not names:
        raise RuntimeError("Doxygen's output declares no names")
    lines = ["\n## All names of the headers\n"]
    for each in sorted(names, key=lambda name: name.page):
        lines.append(f"```{{{each.directive}}} {each.declaration}\n{each.brief} "
                     f'<a href="{headers}{each.page}">Full description</a>\n```\n')
    return "\n".join(lines)
