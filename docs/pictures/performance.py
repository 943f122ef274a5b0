"""performance.py [--check] [--page PAGE]: draws the pictures of docs/performance.md.

The numbers are in tables of the page and in other_collectives.txt. With --check, nothing is written, and the status is
1 if a picture does not show these numbers.
"""

import argparse
import math
import pathlib
import sys
from collections.abc import Callable
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent

SIZES = ["8", "64", "1K", "8K", "64K", "1M", "16M"]
TICKS = [0.125, 0.25, 0.5, 1.0, 2.0]  # of the ratio, on a logarithmic axis
WIDTH, HEIGHT = 230, 220  # of a panel
LEFT, TOP, GAP = 60, 96, 20
COLOURS = ["#1f6fb4", "#d95f02", "#2a8a4a"]
DASHES = ["none", "7 4", "2 3"]  # so that lines differ without colours, too


ALLREDUCE = "| P | size | best MPI | us | ours | malloc: us | ratio | target | lsched_alloc: us | ratio | target |"
OTHERS = "| collective | P | size | best MPI | us | ours | malloc: us | ratio | lsched_alloc: us | ratio |"


class Line(NamedTuple):
    label: str
    ratios: dict[str, float]  # by size


def table(page: str, header: str) -> list[dict[str, str]]:
    """The rows of the table with that first line. "us", "ratio" and "target" belong to the column before them."""
    lines = page.splitlines()
    begin = lines.index(header)
    names: list[str] = []
    for name in cells(header):
        names.append(f"{names[-1].partition(':')[0]}: {name}" if name in ("us", "ratio", "target") else name)
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def line_of(label: str, rows: list[dict[str, str]], column: str) -> Line:
    ratios = {row["size"]: float(row[column]) for row in rows}
    assert list(ratios) == SIZES, (label, ratios)
    return Line(label, ratios)


def x_of(size: str) -> float:
    return WIDTH * (SIZES.index(size) + 0.5) / len(SIZES)


def y_of(ratio: float) -> float:
    low, high = math.log2(TICKS[0]), math.log2(TICKS[-1])
    return HEIGHT * (1 - (math.log2(ratio) - low) / (high - low))


def text(x: float, y: float, words: str, attributes: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {attributes}>{words}</text>'.replace(" >", ">")


def axes(is_first: bool) -> list[str]:
    drawn = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>']
    for tick in TICKS:
        heavy = ' stroke="#333" stroke-width="1.6"' if tick == 1 else ' stroke="#ddd"'
        drawn.append(f'<line x1="0" x2="{WIDTH}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}"{heavy}/>')
        if is_first:
            drawn.append(text(-8, round(y_of(tick) + 4, 1), f"{tick:g}", 'text-anchor="end"'))
    drawn += [text(round(x_of(size), 1), HEIGHT + 18, size, 'text-anchor="middle"') for size in SIZES]
    return drawn


def panel(number: int, title: str, lines: list[Line]) -> list[str]:
    drawn = [f'<g transform="translate({LEFT + number * (WIDTH + GAP)} {TOP})">',
             text(WIDTH / 2, -10, title, 'text-anchor="middle" font-weight="bold"'), *axes(number == 0)]
    for line, colour, dash in zip(lines, COLOURS, DASHES):
        points = [(round(x_of(size), 1), round(y_of(ratio), 1)) for size, ratio in line.ratios.items()]
        drawn.append(f'<polyline points="{" ".join(f"{x:g},{y:g}" for x, y in points)}" fill="none" stroke="{colour}" '
                     f'stroke-width="2" stroke-dasharray="{dash}"/>')
        drawn += [f'<circle cx="{x:g}" cy="{y:g}" r="3" fill="{colour}"><title>{line.label}, {size}: {ratio:g}</title>'
                  "</circle>" for (x, y), (size, ratio) in zip(points, line.ratios.items())]
    return [*drawn, "</g>"]


def legend(labels: list[str]) -> list[str]:
    drawn, x = [], LEFT
    for label, colour, dash in zip(labels, COLOURS, DASHES):
        drawn += [f'<line x1="{x}" x2="{x + 36}" y1="58" y2="58" stroke="{colour}" stroke-width="2" '
                  f'stroke-dasharray="{dash}"/>', text(x + 44, 62, label)]
        x += 44 + 7 * len(label) + 30
    return drawn


def picture(title: str, panels: dict[str, list[Line]]) -> str:
    """Panels side by side, on a white ground, so that the picture is readable on a dark page."""
    width, height = LEFT + len(panels) * (WIDTH + GAP), TOP + HEIGHT + 50
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" '
             'font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" font-size="12" fill="#111">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             text(14, 30, title, 'font-size="16" font-weight="bold"'),
             *legend([line.label for line in next(iter(panels.values()))])]
    for number, (name, lines) in enumerate(panels.items()):
        drawn += panel(number, name, lines)
    drawn += [text(width / 2, height - 10, "size in bytes", 'text-anchor="middle"'), "</svg>"]
    return "\n".join(drawn) + "\n"


def allreduce(page: str) -> str:
    rows = table(page, ALLREDUCE)
    panels = {}
    for ranks in ("2", "4", "8", "32"):
        of_these = [row for row in rows if row["P"] == ranks]
        panels[f"{ranks} ranks"] = [line_of("buffers from malloc", of_these, "malloc: ratio"),
                                    line_of("buffers from lsched_alloc", of_these, "lsched_alloc: ratio")]
    return picture("allreduce: time of libsched / time of the faster MPI (below 1, libsched is faster)", panels)


def others(page: str) -> str:
    rows = table(page, OTHERS)
    panels = {}
    for collective in ("bcast", "reduce_scatter_block", "allgather", "alltoall"):
        panels[collective] = [
            line_of(f"{ranks} ranks", [row for row in rows if (row["collective"], row["P"]) == (collective, ranks)],
                    "malloc: ratio") for ranks in ("2", "4", "8")]
    return picture("from malloc: time of libsched / time of the faster MPI (below 1, libsched is faster)", panels)


PICTURES: dict[str, Callable[[str], str]] = {"allreduce.svg": allreduce, "other_collectives.svg": others}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", type=pathlib.Path, default=HERE.parent / "performance.md")
    given = parser.parse_args()
    page = given.page.read_text(encoding="utf-8") + "\n" + (HERE / "other_collectives.txt").read_text(encoding="utf-8")
    old = []
    for name, draw in PICTURES.items():
        file = HERE / name
        if not given.check:
            file.write_text(draw(page), encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != draw(page):
            old.append(f"docs/pictures/{name} does not show the tables of {given.page}: "
                       "run python3 docs/pictures/performance.py")
    sys.exit("\n".join(old) or 0)


if __name__ == "__main__":
    main()
