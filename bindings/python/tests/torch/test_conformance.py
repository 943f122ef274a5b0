"""The driver detects a wrong result, an error, a hang and a death, and continues after each fault."""

import json
import os
import subprocess
import sys

import pytest

import conformance

HERE = os.path.dirname(os.path.abspath(__file__))


def run(tmp_path, *arguments):
    """Makes a short run. Returns the exit status, and {test: result} of the last backend."""
    out = tmp_path / "out.json"
    command = [sys.executable, os.path.join(HERE, "conformance.py"), "--json", str(out), "--ranks", "3", *arguments]
    environment = dict(os.environ, PYTHONPATH=HERE)
    status = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=300).returncode
    return status, list(json.loads(out.read_text())["results"].values())[-1]


@pytest.mark.parametrize(
    "backend, outcome, detail",
    [
        ("wrong", "fail", "AssertionError"),
        ("refuses", "fail", "rank 1: "),
        ("hangs", "fail", "sabotage.py"),
        ("dies", "fail", "status -9"),
    ],
)
def test_a_fault_of_one_rank_fails_its_test_and_no_other(tmp_path, backend, outcome, detail):
    status, results = run(
        tmp_path, "--backend", backend, "--import", "sabotage", "--timeout", "8",
        "--only", "test_all_reduce_sum$|test_broadcast$",
    )  # fmt: skip
    assert status == 1
    assert results["test_broadcast"]["outcome"] == outcome
    assert results["test_all_reduce_sum"]["outcome"] == "pass"
    assert detail in results["test_broadcast"]["detail"]


def test_a_pass_that_is_listed_as_a_failure_is_a_mismatch(tmp_path):
    expected = tmp_path / "expected.toml"
    expected.write_text('[gloo]\ntest_broadcast = { outcome = "fail", reason = "none" }\n')
    assert run(tmp_path, "--only", "test_broadcast$", "--expected", str(expected))[0] == 1


def test_what_the_baseline_passes_must_not_be_skipped():
    results = {"a": {"outcome": "skip", "detail": "name"}, "b": {"outcome": "pass", "detail": ""}}
    baseline = {"a": {"outcome": "pass", "detail": ""}}
    assert len(conformance.check("x", results, {}, baseline)) == 1
    assert not conformance.check("x", results, {"a": {"outcome": "skip", "reason": "name"}}, baseline)


def test_a_test_that_does_not_exist_must_not_be_listed():
    results = {"b": {"outcome": "pass", "detail": ""}}
    assert conformance.check("x", results, {"a": {"outcome": "fail", "reason": "gone"}}, {})


def test_one_rank_that_skips_makes_a_failure():
    replies = [(0, {"outcome": "pass", "detail": ""}), (1, {"outcome": "skip", "detail": "small"})]
    assert conformance.merge(replies)[0] == "fail"


def test_a_run_in_which_nothing_passes_is_a_mismatch():
    assert conformance.check("x", {"a": {"outcome": "skip", "detail": ""}}, {}, {})
