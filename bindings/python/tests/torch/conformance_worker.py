"""One rank of the conformance driver. conformance.py starts this program, and sends one test after the other.

The suite is torch/testing/_internal/distributed/distributed_test.py as installed. The suite itself is not changed. But
there are three differences to torch's own driver. The process stays for all tests. The barriers use the store instead
of files, because torch's barriers give up after 10 s. Every test has a separate store prefix and a separate directory.
"""

import contextlib
import faulthandler
import importlib
import json
import os
import random
import resource
import socket
import sys
import traceback
import unittest
from datetime import timedelta

import above  # noqa: F401
from waiting import wait_until

SEED = 1234
SUITE = "torch.testing._internal.distributed.distributed_test"
FEATURES = ("ddp", "subgroup", "plugin", "gpu", "cuda")


def load_suite(backends, gates, modules):
    """Imports the suite.

    Returns the suite, and {name: {test: reason}}. A reason is the text with which a decorator skips the test if BACKEND
    is `name`. A test that is not skipped has no reason (None). The decorators read BACKEND while the suite is imported,
    so the suite is imported once for each name in `gates`. The random generators are seeded before each import, because
    the suite draws random objects that must be equal on all ranks.
    """
    import torch
    from torch.testing._internal import common_distributed

    for module in modules:
        importlib.import_module(module)
    for feature in FEATURES:
        common_distributed.DistTestCases.backend_feature[feature] |= set(backends) - {"gloo", "nccl", "mpi", "ucc"}
    suite, skipped = None, {}
    for name in gates:
        os.environ["BACKEND"] = name
        random.seed(SEED)
        torch.manual_seed(SEED)
        suite = importlib.reload(suite) if suite else importlib.import_module(SUITE)
        base = suite.DistributedTest._DistTestBase
        tests = {test: getattr(base, test) for test in dir(base) if test.startswith("test_")}
        skipped[name] = {
            test: method.__unittest_skip_why__ if getattr(method, "__unittest_skip__", False) else None
            for test, method in tests.items()
        }
    return suite, skipped


def make_case(suite, test, rank, size, directory, barrier):
    """Returns an instance of the suite's tests for one rank, like torch's TestDistBackend inside a rank."""
    from torch.testing._internal.common_utils import TestCase

    class Case(TestCase, suite.DistributedTest._DistTestBase):
        world_size = str(size)  # a string, as in torch's class
        file_name = os.path.join(directory, "file")
        init_method = "file://" + file_name

        def _barrier(self, wait_for=size, timeout=30):
            barrier(wait_for, timeout)

    case = Case(test)
    case.rank = rank
    return case


class Meeting:
    """The barriers of one test. They use the store, so they also work after the end of process groups.

    A rank that failed releases the other ranks.
    """

    def __init__(self, store, rank):
        self.store, self.rank, self.count = store, rank, 0

    def barrier(self, size, timeout, released_by_failure=True):
        """Blocks until `size` ranks have come. Raises TimeoutError after `timeout` seconds.

        With `released_by_failure`, also raises RuntimeError if a rank has failed.
        """
        self.count += 1
        self.meet(f"barrier{self.count}", size, timeout, released_by_failure)

    def meet(self, key, size, timeout, released_by_failure):
        def all_have_come():
            if self.store.add(key, 0) >= size:
                return True
            if released_by_failure and self.store.add("failed", 0):
                raise RuntimeError("another rank failed before this barrier")
            return False

        self.store.add(key, 1)
        wait_until(all_have_come, timeout)

    def fail(self):
        self.store.add("failed", 1)


@contextlib.contextmanager
def environment_of(suite, name, directory):
    """Sets the environment and globals of one test, BACKEND included. Restores the environment afterwards."""
    import torch.distributed as dist

    before = dict(os.environ)
    for folder in ("barrier", "test_dir"):
        os.makedirs(os.path.join(directory, folder), exist_ok=True)
    os.environ.update(BACKEND=name, TEMP_DIR=directory)
    suite.BACKEND = name
    suite.INIT_METHOD = "file://" + os.path.join(directory, "shared_init_file")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        dist.set_debug_level_from_env()


def call(case, test):
    """Runs one test method. Returns (outcome, detail). Does not raise."""
    from torch.testing._internal.common_distributed import TEST_SKIPS

    try:
        try:
            case.setUp()
            getattr(case, test)()
            return "pass", ""
        finally:
            case.tearDown()
            case.doCleanups()
    except unittest.SkipTest as skip:
        return "skip", str(skip)
    except SystemExit as end:
        reasons = [skip.message for skip in TEST_SKIPS.values() if skip.exit_code == end.code]
        if reasons:
            return "skip", reasons[0]
        return ("pass", "") if end.code in (0, None) else ("fail", traceback.format_exc())
    except BaseException:
        return "fail", traceback.format_exc()


def run_test(suite, rank, size, store, timeout, request, report):
    """Runs one test on this rank, and reports the outcome once.

    Blocks as long as the test does. A rank that failed reports and leaves its process groups at once, so that its peers
    do not wait. A rank that did not fail leaves and reports when all ranks have finished, as in torch's driver.
    """
    import torch.distributed as dist

    meeting = Meeting(dist.PrefixStore(f"{request['number']}/driver", store), rank)
    case = make_case(suite, request["test"], rank, size, request["directory"], meeting.barrier)
    limit = min(suite.CUSTOM_PG_TIMEOUT.get(request["test"], suite.default_pg_timeout), timeout / 2)
    with environment_of(suite, request["seen_as"], request["directory"]):
        try:
            dist.init_process_group(
                request["backend"],
                store=dist.PrefixStore(f"{request['number']}/group", store),
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=limit),
            )
            outcome, detail = call(case, request["test"])
        except BaseException:
            outcome, detail = "fail", traceback.format_exc()
        if outcome == "fail":
            report({"outcome": outcome, "detail": detail})
            meeting.fail()
            leave()
        meeting.meet("end", size, 2 * timeout, released_by_failure=False)
        if outcome != "fail":
            problem = leave()
            report({"outcome": "fail" if problem else outcome, "detail": problem or detail})


def leave():
    """Destroys the process groups that the test has not destroyed.

    Returns the traceback if that fails, and otherwise an empty text.
    """
    import torch.distributed as dist

    try:
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:
        return traceback.format_exc()
    return ""


def main():
    """Reads the task, and then the tests, from the descriptor in argv[1]. The task and each test are one line of JSON.

    Returns at end of file.
    """
    channel = socket.socket(fileno=int(sys.argv[1]))
    lines = channel.makefile("r")

    def report(message):
        channel.sendall((json.dumps(message) + "\n").encode())

    task = json.loads(lines.readline())
    rank, size, timeout = task["rank"], task["size"], task["timeout"]
    stacks = open(task["stacks"], "w")
    faulthandler.enable(stacks)  # handles also SIGABRT, by which the driver ends a rank that hangs
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    suite, skipped = load_suite(task["backends"], task["gates"], task["modules"])
    import torch
    import torch.distributed as dist

    report({"torch": torch.__version__, "skipped": skipped})
    port = json.loads(lines.readline())["port"]
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0, wait_for_workers=False)
    report({"port": store.port})
    os.environ["MASTER_PORT"] = str(store.port)
    for line in lines:
        faulthandler.dump_traceback_later(2 * timeout + 30, exit=True, file=stacks)  # ends this process if the driver
                                                                                     # has ended
        run_test(suite, rank, size, store, timeout, json.loads(line), report)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
