"""Opening a world fails if an environment variable has an invalid value."""

import subprocess
import sys

import pytest

import libsched

LAUNCHED = {"LSCHED_RUN_FD": "0", "LSCHED_RUN_RANK": "0", "LSCHED_RUN_SIZE": "1"}
# Keys are variables. Values are an invalid value of the variable, and other variables that must be set.
WRONG = {
    "LSCHED_PROGRESS": ("x", {}),
    "LSCHED_IDLE": ("x", {}),
    "LSCHED_LANE": ("x", {}),
    "LSCHED_READ_PEERS": ("x", {}),
    "LSCHED_ALGORITHM": ("x", {}),
    "LSCHED_ALGORITHM_FILES": ("/nowhere/x", {}),
    "LSCHED_TUNING": ("/nowhere/x", {}),
    "LSCHED_LOG": ("x", {}),
    "LSCHED_TRACE": ("/nowhere/x", {}),
    "LSCHED_RECORDER": ("/nowhere/x", {}),
    "LSCHED_REGION": ("x", {}),
    "LSCHED_START_TIMEOUT": ("x", {}),
    "LSCHED_TOUCH": ("x", {}),
    "LSCHED_VERIFY": ("x", {}),
    "LSCHED_WORLD": ("x", {}),
    "LSCHED_CUDA_DEVICE": ("x", {}),
    "LSCHED_CUDA_STREAMS": ("x", {}),
    "LSCHED_RANKS_PER_NODE": ("x", {}),
    "LSCHED_NET_INTERFACES": ("eth0 eth1", {}),
    "LSCHED_NET_PORTS": ("9-8", {}),
    "LSCHED_NET_FAMILY": ("5", {}),
    "LSCHED_NET_LOST_AFTER": ("0", {}),
    "LSCHED_NET_ENCRYPT": ("ssl", {}),
    "LSCHED_RUN_FD": ("x", LAUNCHED),
    "LSCHED_RUN_RANK": ("x", LAUNCHED),
    "LSCHED_RUN_SIZE": ("x", LAUNCHED),
    "LSCHED_RUN_LAUNCHER": ("x", LAUNCHED),
}


def test_every_variable_has_a_row():
    told = subprocess.run([sys.executable, "-m", "libsched", "info"], stdout=subprocess.PIPE, timeout=60, text=True,
                          check=True).stdout
    known = {line.split()[0] for line in told.splitlines() if line.startswith("  LSCHED_")}
    assert known == set(WRONG) | {"LSCHED_RSH"}  # only the command reads LSCHED_RSH


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("way", [libsched.init, lambda: libsched.open_threads(3),
                                 lambda: libsched.open_with(0, 1, lambda mine: [mine])],
                         ids=["init", "open_threads", "open_with"])
def test_opening_names_the_variable(monkeypatch, way, name):
    value, others = WRONG[name]
    if others and way is not libsched.init:
        pytest.skip("read by init() alone")
    for variable, each in {**others, name: value}.items():
        monkeypatch.setenv(variable, each)
    with pytest.raises(libsched.Error, match=name):
        way()
