"""Runs torch's own distributed test suite on a backend, in processes that stay for all tests, and compares backends.

    python conformance.py --backend gloo --ranks 4 --json gloo.json
    python conformance.py --backend lsched --import libsched.torch --against gloo --gates mpi
    python conformance.py --backend lsched --import libsched.torch --only send_recv

The suite (torch/testing/_internal/distributed/distributed_test.py) is used as installed. A test passes if all ranks
pass it, and is skipped if all ranks skip it. The exit status is 0 if every outcome is a pass, a skip, or listed in the
file of expectations. The status is 1 for any other outcome, and if a test that is expected to fail passes. The status
is 2 if the ranks do not start.
"""

import argparse
import contextlib
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
GRACE = 5  # seconds that ranks have to finish a test after a rank has failed, and to end after the driver has asked
           # them to


class RankDied(Exception):
    """A rank has ended, or has not replied in time. `args` are the rank and the details."""


class Rank:
    """A worker process and the channel to it. All its output goes into a file."""

    def __init__(self, rank, options, directory):
        output = options.output or directory
        ours, theirs = socket.socketpair()
        self.rank, self.channel = rank, ours
        self.stacks, self.log = os.path.join(directory, f"rank{rank}.stacks"), os.path.join(output, f"rank{rank}.log")
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(options.ranks), LOCAL_RANK=str(rank))
        environment.pop("TORCH_DISTRIBUTED_USE_TORCHCOMMS", None)  # this variable would replace all backends
        environment.update(MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1", INIT_METHOD="file://" + directory)
        environment.update(BACKEND=options.backend, TEMP_DIR=directory)
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        # With the default of this variable, the last line of a traceback would not have the reason.
        environment.setdefault("PYTORCH_PRINT_REPRO_ON_FAILURE", "0")
        command = [sys.executable, os.path.join(HERE, "conformance_worker.py"), str(theirs.fileno())]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        theirs.close()
        self.lines = ours.makefile("r")

    def send(self, message):
        try:
            self.channel.sendall((json.dumps(message) + "\n").encode())
        except OSError:
            pass  # receive() reports the death

    def receive(self):
        line = self.lines.readline()
        if not line:
            with open(self.log, errors="replace") as log:
                end = log.read()[-2000:]
            raise RankDied(self.rank, f"{end}\n{self.read_stacks()}process ended with status {self.process.wait()}")
        return json.loads(line)

    def abort(self):
        """Makes the process write the stacks of its threads, and end."""
        self.process.send_signal(signal.SIGABRT)

    def read_stacks(self):
        if not os.path.exists(self.stacks):
            return ""
        with open(self.stacks) as file:
            return file.read()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.lines.close()
        self.channel.close()


class Ranks:
    """The worker processes, which are started again after a hang or a death.

    `torch` (the version of torch) and `skipped` are values that the workers have sent.
    """

    def __init__(self, options, names, directory):
        self.options, self.names, self.directory = options, names, directory
        self.number = 0
        self.start()

    def start(self):
        """Starts the workers, and blocks until they have imported the suite and share a store.

        Raises RankDied if a worker ends.
        """
        self.members = [Rank(rank, self.options, self.directory) for rank in range(self.options.ranks)]
        try:
            self.greet()
        except BaseException:
            self.stop()
            raise

    def greet(self):
        """Sends the ranks their task and the port of the store. Rank 0 opens the store."""
        gates = {name: None for names in self.names.values() for name in names}
        for member in self.members:
            member.send(
                {
                    "rank": member.rank,
                    "size": self.options.ranks,
                    "timeout": self.options.timeout,
                    "stacks": member.stacks,
                    "backends": list(self.names),
                    "gates": list(gates),
                    "modules": self.options.modules,
                }
            )
        for member in self.members:
            hello = member.receive()
        self.torch, self.skipped = hello["torch"], hello["skipped"]
        port = 0
        for member in self.members:
            member.send({"port": port})
            port = member.receive()["port"]

    def stop(self):
        for member in self.members:
            member.kill()

    def run(self, backend, test, seen_as):
        """Runs one test on all ranks. Blocks for at most the timeout. Returns [(rank, reply)] in the order of arrival.

        During the test, the variable BACKEND of the suite has the value `seen_as`. The process group always uses
        `backend`.
        """
        self.number += 1
        directory = tempfile.mkdtemp(dir=self.directory)
        for member in self.members:
            member.send(
                {"backend": backend, "seen_as": seen_as, "test": test, "number": self.number, "directory": directory}
            )
        replies, lost = self.collect()
        if lost:
            self.stop()
            self.start()
        return replies + lost

    def collect(self):
        """Returns the replies in the order of arrival, and outcomes for the ranks that have not replied."""
        deadline = time.monotonic() + self.options.timeout
        replies, waiting = [], {member.rank: member for member in self.members}
        with selectors.DefaultSelector() as selector:
            for member in self.members:
                selector.register(member.channel, selectors.EVENT_READ, member)
            while waiting:
                ready = selector.select(max(0, deadline - time.monotonic()))
                if not ready:
                    return replies, self.describe_hang(waiting.values())
                for key, _ in ready:
                    selector.unregister(key.fileobj)
                    del waiting[key.data.rank]
                    try:
                        replies.append((key.data.rank, key.data.receive()))
                    except RankDied as death:
                        return replies, [(death.args[0], {"outcome": "fail", "detail": death.args[1], "lost": True})]
                    if replies[-1][1]["outcome"] == "fail":
                        deadline = min(deadline, time.monotonic() + GRACE)
        return replies, []

    def describe_hang(self, waiting):
        for member in waiting:
            member.abort()
        for member in waiting:
            with contextlib.suppress(subprocess.TimeoutExpired):  # the process is killed soon in any case
                member.process.wait(GRACE)
        return [
            (member.rank, {"outcome": "timeout", "detail": member.read_stacks() + "no reply", "lost": True})
            for member in waiting
        ]


def merge(replies):
    """Returns one outcome for all ranks, and the details of the first rank that failed and of all lost ranks."""
    failed = [(rank, reply) for rank, reply in replies if reply["outcome"] in ("fail", "timeout")]
    if failed:
        told = failed[:1] + [(rank, reply) for rank, reply in failed[1:] if reply.get("lost")]
        detail = "\n".join(f"rank {rank}: {reply['detail']}" for rank, reply in reversed(told))
        return failed[0][1]["outcome"], detail
    outcomes = {reply["outcome"] for _, reply in replies}
    if len(outcomes) > 1:
        return "fail", "not all ranks skip: " + ", ".join(f"{rank} {reply['outcome']}" for rank, reply in replies)
    return replies[0][1]["outcome"], replies[0][1]["detail"]


def select(skipped, gates, pattern):
    """Returns {test: reason} for the tests that match `pattern`.

    If the reason is None, the test runs. Otherwise the suite's decorators skip the test under all names in `gates`.
    """
    reasons = {}
    for test in skipped[gates[0]]:
        if re.search(pattern, test):
            given = [skipped[name].get(test) for name in gates]
            reasons[test] = given[0] if all(given) else None
    return reasons


def run_backend(ranks, backend, expected, options, tell):
    """Runs all selected tests on one backend. Returns {test: {"outcome", "seconds", "detail"}}."""
    results = {}
    reasons = select(ranks.skipped, ranks.names[backend], options.only)
    for number, (test, reason) in enumerate(reasons.items(), 1):
        begin = time.monotonic()
        seen_as = expected.get(test, {}).get("seen_as", backend)
        outcome, detail = ("skip", reason) if reason else merge(ranks.run(backend, test, seen_as))
        results[test] = {"outcome": outcome, "seconds": round(time.monotonic() - begin, 3), "detail": detail}
        tell(backend, test, results[test], number, len(reasons))
    return results


def make_teller(options):
    """Returns a function that shows progress on a terminal, and writes a line for each test to the log.

    If no log file is given, the log is standard output. If standard output is a terminal, there is no log.
    """
    log = open(options.log, "w") if options.log else None if sys.stdout.isatty() else sys.stdout

    def tell(backend, test, result, number, count):
        last = result["detail"].strip().splitlines()[-1:] or [""]
        line = f"{backend} {test} {result['outcome']} {result['seconds']:.2f} s  {last[0][:160]}".rstrip()
        if log:
            print(line, file=log, flush=True)
        if sys.stderr.isatty():
            if result["outcome"] in ("fail", "timeout") and log is not sys.stdout:
                print("\r\033[K" + line, file=sys.stderr)
            print(f"\r\033[K[{number}/{count}] {backend} {test}"[:110], end="", file=sys.stderr, flush=True)

    return tell


def read_expectations(path, torch):
    """Returns {backend: {test: entry}} for this version of torch. Returns {} if `path` is empty. expected.toml
    describes entries."""
    if not path:
        return {}
    with open(path, "rb") as file:
        table = tomllib.load(file)
    return {
        backend: {
            test: entry
            for test, entry in tests.items()
            if any(torch.startswith(version) for version in entry.get("torch", [""]))
        }
        for backend, tests in table.items()
    }


def outcomes_of(entry):
    """Returns the list of outcomes of an entry. An entry may have a single outcome, as a string."""
    return [entry["outcome"]] if isinstance(entry["outcome"], str) else entry["outcome"]


def check(backend, results, expected, baseline):
    """Returns a sentence for each mismatch.

    A test that passes on the baseline must pass, unless the expectations list the test.
    """
    problems = [f"{backend} {test}: listed, but there is no such test" for test in expected if test not in results]
    for test, result in results.items():
        outcome, entry = result["outcome"], expected.get(test)
        if entry and outcome not in outcomes_of(entry):
            problems.append(f"{backend} {test}: {outcome}, but {entry['outcome']} is expected ({entry['reason']})")
        elif not entry and outcome not in ("pass", "skip"):
            problems.append(f"{backend} {test}: {outcome}: {(result['detail'].strip().splitlines() or [''])[-1]}")
        elif not entry and outcome == "skip" and baseline.get(test, {}).get("outcome") == "pass":
            problems.append(f"{backend} {test}: skip, but the baseline passes it ({result['detail'].strip()})")
    if not any(result["outcome"] == "pass" for result in results.values()):
        problems.append(f"{backend}: no test passed")
    return problems


def summarize(torch, ranks, results, seconds):
    """Prints the table at the end."""
    columns = ("pass", "skip", "fail", "timeout")
    print(f"torch {torch}, {ranks} ranks")
    print(f"{'backend':12}" + "".join(f"{column:>9}" for column in columns) + f"{'seconds':>9}")
    for backend, tests in results.items():
        counts = [sum(test["outcome"] == column for test in tests.values()) for column in columns]
        print(f"{backend:12}" + "".join(f"{count:9}" for count in counts) + f"{seconds[backend]:9.1f}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="gloo", help="the backend to test (default: gloo)")
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module that registers the backend; may be repeated",
    )
    parser.add_argument("--against", metavar="BACKEND", help="run this backend first; tests that it passes must pass")
    parser.add_argument(
        "--gates",
        default="",
        metavar="NAMES",
        help="also run tests that the suite allows only for these backends, e.g. gloo,mpi",
    )
    parser.add_argument("--ranks", type=int, default=4, help="processes (default: 4; fewer skip more tests)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="tests whose names match this expression")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds for a test (default: 60)")
    parser.add_argument(
        "--expected",
        default=os.path.join(HERE, "expected.toml"),
        metavar="FILE",
        help="the outcomes that are neither pass nor skip (default: %(default)s; '' for none)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all outcomes and tracebacks to this file")
    parser.add_argument("--log", metavar="FILE", help="write a line per test to this file")
    parser.add_argument("--output", metavar="DIRECTORY", help="keep the output of the ranks in this directory")
    return parser.parse_args()


def gates_of(options):
    """Returns {backend: values of BACKEND under which the suite may run a test}.

    For the tested backend, these values are its name, the name of the baseline, and the names in --gates.
    """
    gates = {options.against: [options.against]} if options.against else {}
    others = [options.against] + options.gates.split(",")
    gates[options.backend] = list(dict.fromkeys([options.backend] + [name for name in others if name]))
    return gates


def run_all(options, directory):
    """Runs the backends one after the other on the same ranks. Returns the contents of the JSON file."""
    begin = time.monotonic()
    ranks = Ranks(options, gates_of(options), directory)
    results, seconds, tell = {}, {"start": time.monotonic() - begin}, make_teller(options)
    try:
        expected = read_expectations(options.expected, ranks.torch)
        for backend in ranks.names:
            begin = time.monotonic()
            results[backend] = run_backend(ranks, backend, expected.get(backend, {}), options, tell)
            seconds[backend] = time.monotonic() - begin
    finally:
        ranks.stop()
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
    problems = []
    for backend, tests in results.items():
        listed = {test: entry for test, entry in expected.get(backend, {}).items() if re.search(options.only, test)}
        baseline = results[options.against] if options.against and backend == options.backend else {}
        problems += check(backend, tests, listed, baseline)
    return {"torch": ranks.torch, "ranks": options.ranks, "seconds": seconds, "results": results, "problems": problems}


def main():
    options = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)
    with tempfile.TemporaryDirectory() as temporary:
        if options.output:
            os.makedirs(options.output, exist_ok=True)
        try:
            run = run_all(options, temporary)
        except RankDied as death:
            print(f"rank {death.args[0]}: {death.args[1]}", file=sys.stderr)
            return 2
    if options.json:
        with open(options.json, "w") as file:
            json.dump(run, file, indent=1)
    summarize(run["torch"], options.ranks, run["results"], run["seconds"])
    print("\n".join(run["problems"]) or "as expected")
    return 1 if run["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
