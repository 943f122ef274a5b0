#!/usr/bin/env python3
"""Sums up what `freeze worlds` or `freeze corpus` prints, a line for each algorithm, as corpus.txt and worlds.txt hold it.

usage: freeze corpus | summary.py | diff corpus.txt -
"""
import collections
import hashlib
import sys

rows = collections.defaultdict(list)
for line in sys.stdin:
    fields = line.rstrip("\n").split(" | ")
    rows[fields[0].split(",")[0].split(" ")[0]].append(fields)


def digest(words):
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


is_corpus = any(len(fields) > 1 for some in rows.values() for fields in some)
print("# algorithm | worlds | digests of schedules, order, findings, simulator, GOAL, engine: of commit e925a35" if is_corpus
      else "# algorithm | worlds that `lsched verify --all` proves at commit e925a35 | digest of their names")
for name in sorted(rows):
    some = rows[name]
    columns = range(1, len(some[0])) if is_corpus else [0]
    print(" | ".join([name, str(len(some))] + [digest(r[0] + r[i] if is_corpus else r[0] for r in some) for i in columns]))
