"""Counts phrases that plain technical English does not use, for each folder, and compares the counts with a budget.

usage: plain_english.py [--root TREE] [--budget FILE] [--worst N] [--record] [FOLDER...]

A text is a comment (adjacent comment lines are one text), a string literal of at least five words, or a sentence of a
document. A text counts once, however many phrases are found in it. The check fails if a folder has more texts with a
phrase than its budget allows, and also if it has fewer: `--record` then lowers the budget, and never raises it.
Without FOLDER, all folders are compared. With FOLDER, the counts of these folders are printed and nothing is compared.
For each folder that has more than its budget, or for each FOLDER, `--worst N` prints the N texts with the most phrases.
"""

import argparse
import collections
import io
import pathlib
import re
import sys
import tokenize

KINDS = ("comments", "strings", "documents")
FOLDERS = ("ops", "libsched", "collectives", "offload", "bindings", "microbench", "tests", "docs")
LANGUAGES = {".cc": "c", ".h": "c", ".hpp": "c", ".c": "c", ".cu": "c", ".py": "python", ".md": "markdown"}

# The phrases, and what to write in their place.
EVERYWHERE = {
    "no main verb: begin with the subject": r"^(?:What|Who|Whose|Whom|Whether|Where|How|Which)\b(?![^.]*\?)",
    "no main verb: begin with the noun": r"^(?:Of|By|From|Behind|Beside|Among)\b",
    "refers to another text: repeat the noun": r"^(?:The same|So many|So much|Those|As above)\b|\b[Ll]ikewise\b",
    "name the thing": r"(?i)\b(?:whoever|whatever|whichever)\b",
    "a rank or a thread is not a person": r"(?i)\b(?:he|him|his|himself|somebody|nobody|anybody|everybody)\b",
    "name the thing in place of a pronoun": r"(?i)\b(?:what (?:it|they|there is|is there|has|was|came)|who is in)\b",
    "use a verb with not": r"(?i)(?<!there )\b(?:is|are|has|have) none\b|\bha(?:s|ve) not (?:the|a|an|its|their|any)\b"
                           r"|\bha(?:s|ve) not[.,;:]",
    "an unclear verb": r"(?i)\b(?:goes by|go by|goes on|comes? of)\b",
}
IN_CODE = {
    "code does not speak": r"(?i)\b(?:tells|is told|says|answers|heeds|minds)\b",
    "name the noun": r"(?i)\b(?:ones? that|the one|the other one)\b",
}
PHRASES = {kind: {advice: re.compile(phrase) for advice, phrase in table.items()}
           for kind, table in {"documents": EVERYWHERE, "comments": EVERYWHERE | IN_CODE,
                               "strings": EVERYWHERE | IN_CODE}.items()}

C_TOKENS = re.compile(r"""
    (?P<raw>R"(?P<end>[^\s()\\]*)\(.*?\)(?P=end)")
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<character>'(?:[^'\\\n]|\\.)*')
  | (?P<line>//[^\n]*)
  | (?P<block>/\*.*?\*/)
""", re.VERBOSE | re.DOTALL)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def join_comments(comments: list[tuple[int, bool, str]]):
    """Yields the line and the text of each block. Each comment has a line, a flag (true if the line has only the
    comment), and a text."""
    first, last, words = 0, -1, []
    for line, alone, text in comments:
        if words and not (alone and line == last + 1 and text):
            yield first, " ".join(words)
            words = []
        if text:
            first = first if words else line
            words.append(text)
        last = line if alone else -1
    if words:
        yield first, " ".join(words)


def texts_of_c(text: str):
    comments = []
    for token in C_TOKENS.finditer(text):
        line = line_of(text, token.start())
        alone = not text[text.rfind("\n", 0, token.start()) + 1:token.start()].strip()
        if token.lastgroup == "line":
            comments.append((line, alone, token.group().lstrip("/!<").strip()))
        elif token.lastgroup == "block":
            for number, part in enumerate(token.group()[2:-2].split("\n")):
                comments.append((line + number, alone or number > 0, part.strip().lstrip("*<!").strip()))
        elif token.lastgroup in ("string", "raw") and len(token.group().split()) >= 5:
            yield "strings", line, token.group("string")[1:-1] if token.group("string") else token.group()
    for line, words in join_comments(comments):
        yield "comments", line, words


def texts_of_python(text: str):
    comments = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            comments.append((token.start[0], not token.line[:token.start[1]].strip(), token.string.lstrip("#").strip()))
        if token.type == tokenize.STRING:
            words = token.string.lstrip("rRbBuUfF").strip("\"'")
            is_documentation = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.NL, tokenize.COMMENT)
            if is_documentation:
                yield "comments", token.start[0], " ".join(words.split())
            elif len(words.split()) >= 5:
                yield "strings", token.start[0], words
        if token.type != tokenize.DEDENT:
            before = token.type
    for line, words in join_comments(comments):
        yield "comments", line, words


def texts_of_markdown(text: str):
    """Yields the sentences, cells of tables and items of lists, without code blocks and headings."""
    text = re.sub(r"^( *)```.*?^\1```", lambda code: "\n" * code.group().count("\n"), text, flags=re.S | re.M)
    text = re.sub(r"^#.*", "", text, flags=re.M)
    for sentence in re.finditer(r"(?:(?!\n\s*\n|\n\s*[-*|\d]|(?<=[.:;?!])\s).)+", text, re.S):
        words = re.sub(r"^[*#|>\d. -]+", "", " ".join(sentence.group().split()))
        if len(words.split()) >= 4:
            yield "documents", line_of(text, sentence.start()), words


TEXTS = {"c": texts_of_c, "python": texts_of_python, "markdown": texts_of_markdown}


def phrases_in(kind: str, text: str) -> list[str]:
    return [advice for advice, phrase in PHRASES[kind].items() if phrase.search(text)]


def folder_of(path: pathlib.PurePath) -> str:
    return "/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0] if len(path.parts) > 1 else "."


def sources(root: pathlib.Path, folders: list[str]):
    """Yields the paths, relative to the root, of the sources and documents of these folders, or of all folders."""
    files = [] if folders else list(root.glob("*.md"))
    files += [file for folder in folders or FOLDERS for file in (root / folder).rglob("*")]
    for file in sorted(files):
        if file.suffix in LANGUAGES and file.is_file():
            yield file.relative_to(root)


def survey(root: pathlib.Path, folders: list[str]):
    """Returns two tables by folder and kind: the number of all texts, and the texts with a phrase."""
    total, marked = collections.Counter(), collections.defaultdict(list)
    for path in sources(root, folders):
        for kind, line, text in TEXTS[LANGUAGES[path.suffix]]((root / path).read_text(encoding="utf-8")):
            place = folder_of(path), kind
            total[place] += 1
            if found := phrases_in(kind, text):
                marked[place].append((len(found), f"{path}:{line}: {'; '.join(found)}: {text[:160]}"))
    return total, marked


def read_budget(file: pathlib.Path) -> dict[tuple[str, str], int]:
    rows = [line.split() for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return {(folder, kind): int(count) for folder, *counts in rows for kind, count in zip(KINDS, counts, strict=True)}


def write_budget(file: pathlib.Path, counts: dict[tuple[str, str], int]) -> None:
    folders = sorted({folder for (folder, _), count in counts.items() if count})
    rows = [f"{folder:24}" + "".join(f"{counts.get((folder, kind), 0):10}" for kind in KINDS) for folder in folders]
    head = f"{'# folder':24}" + "".join(f"{kind:>10}" for kind in KINDS)
    note = "# Texts with a phrase that plain English does not use. plain_english.py --record lowers the counts."
    file.write_text("\n".join([note, head, *rows]) + "\n")


def print_worst(texts: list[tuple[int, str]], number: int) -> None:
    for _, text in sorted(texts, key=lambda each: (-each[0], each[1]))[:number]:
        print(f"  {text}")


def compare(budget: dict, marked: dict, worst: int) -> bool:
    equal = True
    for place in sorted({*budget, *marked}):
        allowed, texts = budget.get(place, 0), marked.get(place, [])
        if len(texts) != allowed:
            equal = False
            advice = "reword them" if len(texts) > allowed else "lower the budget with --record"
            print(f"{place[0]}: {len(texts)} {place[1]} with a phrase that plain English does not use, the budget is "
                  f"{allowed}: {advice}")
            if len(texts) > allowed:
                print_worst(texts, worst)
    return equal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent)
    parser.add_argument("--budget", type=pathlib.Path)
    parser.add_argument("--worst", type=int, default=10, metavar="N")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    given = parser.parse_args()
    total, marked = survey(given.root, given.folders)
    if not total:
        parser.error(f"no sources under {given.root}")
    if given.folders:
        for kind in KINDS:
            places = [place for place in total if place[1] == kind]
            texts = [text for place in places for text in marked[place]]
            count = sum(total[place] for place in places)
            if count:
                print(f"{kind}: {len(texts)} of {count}, {100 * len(texts) / count:.1f} %")
                print_worst(texts, given.worst)
        return 0
    file = given.budget or given.root / "tests/plain_english.budget"
    counts = {place: len(texts) for place, texts in marked.items()}
    budget = read_budget(file) if file.exists() else None
    if given.record:
        write_budget(file, counts if budget is None else {place: min(count, budget.get(place, 0))
                                                          for place, count in counts.items()})
        budget = read_budget(file)
    return 0 if compare(budget or {}, marked, given.worst) else 1


if __name__ == "__main__":
    sys.exit(main())
