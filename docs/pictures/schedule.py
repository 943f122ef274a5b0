"""Draws docs/pictures/schedule.svg: ranks are lanes, time goes to the right, blue arrows are messages.

    lsched show allreduce --algorithm recursive_doubling --ranks 4 --all --json \\
      | python3 docs/pictures/schedule.py >docs/pictures/schedule.svg
"""

import json
import sys

COLOURS = {"send": "#a7c7e7", "recv": "#b5d8a6", "compute": "#f7cf9b"}
WIDTH, HEIGHT, LANE, STEP, LEFT, TOP = 92, 30, 78, 124, 74, 24


def main() -> None:
    worlds = {each["rank"]: each for each in json.load(sys.stdin)}
    ops = {(rank, op["id"]): op for rank, each in worlds.items() for op in each["ops"] if op["kind"] in COLOURS}
    sends = {(rank, op["peer"], op["tag"]): key for key, op in ops.items() for rank in key[:1] if op["kind"] == "send"}
    before: dict[tuple, list[tuple]] = {key: [] for key in ops}
    for (rank, number), op in ops.items():
        for after in op.get("then", []):
            if (rank, after) in ops:
                before[rank, after].append((rank, number))
    messages = [(sends[op["peer"], key[0], op["tag"]], key) for key, op in ops.items() if op["kind"] == "recv"]
    for sent, received in messages:
        before[received].append(sent)

    depths: dict[tuple, int] = {}

    def depth(key: tuple) -> int:
        if key not in depths:
            depths[key] = 1 + max(map(depth, before[key]), default=-1)
        return depths[key]

    def centre(key: tuple) -> tuple[float, float]:
        return LEFT + depth(key) * STEP + WIDTH / 2, TOP + key[0] * LANE + HEIGHT / 2

    def arrow(a: tuple, b: tuple, colour: str) -> str:
        (x, y), (u, v) = centre(a), centre(b)
        if a[0] == b[0] and depth(b) > depth(a) + 1:  # below what lies between them
            y, v = y + HEIGHT / 2, v + HEIGHT / 2 + 3
            return (f'<path d="M{x:g} {y:g} C{x + 30:g} {y + 24:g} {u - 30:g} {v + 24:g} {u:g} {v:g}" fill="none" '
                    f'stroke="{colour}" stroke-width="1.4" marker-end="url(#{colour[1:]})"/>')
        x, u = x + WIDTH / 2, u - WIDTH / 2 - 3
        return (f'<path d="M{x:g} {y:g} C{x + 22:g} {y:g} {u - 22:g} {v:g} {u:g} {v:g}" fill="none" stroke="{colour}" '
                f'stroke-width="1.4" marker-end="url(#{colour[1:]})"/>')

    right = LEFT + max(map(depth, ops)) * STEP + WIDTH + 12
    box = f'viewBox="0 0 {right} {TOP + len(worlds) * LANE - 12}" font-family="sans-serif" font-size="13"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>', '<rect width="100%" height="100%" fill="#fff"/><defs>']
    for colour in ("#2f6db5", "#777777"):
        lines.append(f'<marker id="{colour[1:]}" markerWidth="7" markerHeight="7" refX="4" refY="3" orient="auto">'
                     f'<path d="M0 0 L6 3 L0 6 z" fill="{colour}"/></marker>')
    lines.append("</defs>")
    for rank in worlds:
        y = TOP + rank * LANE + HEIGHT / 2
        lines.append(f'<path d="M{LEFT - 8} {y} H{right - 6}" stroke="#ddd"/>')
        lines.append(f'<text x="10" y="{y + 4}">rank {rank}</text>')
    for (rank, number), op in ops.items():
        followers = [(rank, after) for after in op.get("then", []) if (rank, after) in ops]
        lines += [arrow((rank, number), each, "#777777") for each in followers]
    lines += [arrow(sent, received, "#2f6db5") for sent, received in messages]
    for key, op in ops.items():
        x, y = centre(key)
        text = {"send": "send to", "recv": "recv from"}.get(op["kind"], op.get("what")) + f" {op.get('peer', '')}"
        lines.append(f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
                     f'fill="{COLOURS[op["kind"]]}" stroke="#555555"/>'
                     f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle">{text.strip()}</text>')
    print("\n".join([*lines, "</svg>"]))


main()
