"""Ranks for tests: threads of this process, or processes of `lsched run`. Every wait has a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback

import pytest

import libsched
from waiting import EVENTS, LIMIT

HERE = os.path.dirname(os.path.abspath(__file__))


def as_threads(ranks: int, body, **options) -> list:
    """Calls body(world) in one thread for each rank. Returns the results by rank. If a rank raises, raises its
    exception."""
    worlds = libsched.open_threads(ranks, region_bytes=64 << 20, commit_timeout=LIMIT, **options)
    answers, raised = [None] * ranks, []

    def run(world: libsched.World) -> None:
        try:
            with world:
                answers[world.rank] = body(world)
        except BaseException as error:
            raised.append((world.rank, error, traceback.format_exc()))

    threads = [threading.Thread(target=run, args=(world,), daemon=True) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LIMIT)
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    if raised:
        first = next((each for each in raised if not isinstance(each[1], (libsched.Cancelled, libsched.PeerLost))),
                     raised[0])
        print("".join(told for _, _, told in raised))
        raise first[1]
    return answers


class Launched:
    """The exit status and the output of processes of `lsched run`."""

    def __init__(self, status: int, output: str) -> None:
        self.status = status
        self.output = output


def launch(ranks: int, source: str, timeout: float = 2 * LIMIT, **environment: str) -> Launched:
    """Runs a program in `ranks` processes. The program can use os, sys, signal, time, libsched and waiting."""
    begin = (f"import os, sys, signal, time, libsched\nsys.path.append({HERE!r})\nimport waiting\n"
             "signal.signal(signal.SIGINT, signal.default_int_handler)\n")
    command = [sys.executable, "-m", "libsched", "run", "-n", str(ranks), sys.executable, "-u", "-c",
               begin + textwrap.dedent(source)]
    with tempfile.TemporaryDirectory() as events:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, text=True,
                              env={**os.environ, EVENTS: events, **environment}, check=False)
    print(done.stdout)
    return Launched(done.returncode, done.stdout)


@pytest.fixture(autouse=True)
def nothing_is_left_open():
    """Checks that the test has closed all worlds."""
    yield
    from libsched._world import _open_worlds

    left = list(_open_worlds)
    for world in left:
        world._give_up()
    assert not left
