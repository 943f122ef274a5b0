"""`lsched doctor` and `python -m libsched doctor`: each finding in a good state and in a bad state."""

import ctypes
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import struct
import subprocess
import sys

import pytest

import libsched

COMMAND = pathlib.Path(libsched.__file__).parent / "bin" / "lsched"
BUILD = COMMAND.resolve().parents[1]
ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCHERS = ("PMI_", "PMIX_", "OMPI_", "SLURM_", "LSCHED_", "WORLD_SIZE", "RANK")


def doctor(*words, limit=None, python=False, **environment):
    """Runs the command and returns its exit status and its findings by subject."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    command = [sys.executable, "-m", "libsched"] if python else [COMMAND]
    done = subprocess.run([*command, "doctor", *words, "--json", "-"], capture_output=True, text=True, timeout=60,
                          env={**clean, **environment}, preexec_fn=limit, check=False)
    assert done.stdout, done.stderr
    return done.returncode, {each["subject"]: each for each in json.loads(done.stdout)["checks"]}


def found(subject, *words, **options):
    """Returns the state and the text of one finding. Checks that the exit status is 1 if any finding is an error."""
    status, findings = doctor(*words, **options)
    assert status == any(each["state"] == "error" for each in findings.values())
    return findings[subject]["state"], findings[subject]["text"]


def script(folder, name, prints):
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{prints}'\n")
    file.chmod(0o755)


def test_an_option_without_a_value_is_named():
    for command in ([COMMAND], [sys.executable, "-m", "libsched"]):
        done = subprocess.run([*command, "doctor", "--json"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "--json: 1 required FILE missing" in done.stderr


def test_a_finding_is_one_line_with_a_page_that_exists():
    done = subprocess.run([COMMAND, "doctor"], capture_output=True, text=True, timeout=60, check=False)
    findings = doctor()[1]
    *text, place = re.sub(r"\n {9}", " ", done.stdout).splitlines()
    assert place == "Pages (docs/...) are in the sources of libsched."
    assert len(text) == len(findings) == 12
    for line, each in zip(text, findings.values()):
        assert re.match(r"(ok|warning|error) +" + re.escape(each["subject"]) + ": ", line)
        path, _, heading = each["page"].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.MULTILINE)
        anchors = [re.sub(r"[^a-z0-9_-]", "", name.lower().replace(" ", "-")) for name in headings]
        assert not heading or heading in anchors


def test_the_python_command_adds_its_package_and_torch(tmp_path):
    status, findings = doctor(python=True)
    assert list(findings)[:12] == list(doctor()[1])
    assert findings["Python package"]["text"].startswith(f"libsched {libsched.__version__} in ")
    assert findings["torch"]["state"] == "ok"
    (tmp_path / "torch.py").write_text("raise ImportError('planted')")
    state, text = found("torch", python=True, PYTHONPATH=f"{tmp_path}:{os.environ['PYTHONPATH']}")
    assert state == "error" and "ImportError: planted" in text


def test_another_command_in_path(tmp_path):
    state, text = found("command", PATH=f"{COMMAND.resolve().parent}:{os.environ['PATH']}")
    assert state == "ok" and "first lsched in PATH" in text
    script(tmp_path, "lsched", "lsched 9.9.9 (ABI 9)")
    state, text = found("command", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert state == "warning" and f"{tmp_path}/lsched (lsched 9.9.9 (ABI 9))" in text
    assert found("command", PATH="/nowhere")[0] == "warning"


def test_a_library_of_another_build(tmp_path):
    library = next((BUILD / "lib").glob("libsched.so.0.?"))
    state, text = found("library", LD_LIBRARY_PATH=str(library.parent))
    assert state == "ok" and "same build" in text
    (tmp_path / library.name).write_bytes(re.sub(rb"build [0-9a-f]{12}", b"build 000000000000", library.read_bytes()))
    state, text = found("library", LD_LIBRARY_PATH=str(tmp_path))
    assert state == "error" and "build 000000000000" in text


def test_the_launcher_of_another_mpi(tmp_path):
    text = found("MPI")[1]
    if "without MPI" in text:
        pytest.skip("the command is built without MPI")
    is_mpich = "built with MPICH" in text
    script(tmp_path, "mpiexec", "mpiexec (OpenRTE) 4.1.4" if is_mpich else "HYDRA build details:")
    state, text = found("MPI", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert state == "warning" and f"{tmp_path}/mpiexec, belongs to {'Open MPI' if is_mpich else 'MPICH'}" in text
    script(tmp_path, "mpiexec", "HYDRA build details:" if is_mpich else "mpiexec (OpenRTE) 4.1.4")
    assert found("MPI", PATH=f"{tmp_path}:/usr/bin:/bin")[0] == "ok"


def test_variables_of_launchers():
    assert found("launcher")[0] == "ok"
    assert found("launcher", PMI_SIZE="2", PMI_RANK="0") == (
        "warning", "this process is one of 2 processes started by an MPI launcher (PMI_SIZE, set by MPICH): "
                   "lsched_world_open fails here. Call lsched_world_open_mpi instead")
    assert found("launcher", LSCHED_WORLD="alone")[0] == "warning"
    for variables in ({"LSCHED_WORLD": "own"}, {"LSCHED_RUN_RANK": "0"}, {"PMI_SIZE": "many"}):
        state, text = found("launcher", **variables)
        assert state == "error" and next(iter(variables))[:10] in text


def test_shared_memory_that_cannot_be_had():
    assert found("shared memory")[0] == "ok"
    state, text = found("shared memory", LSCHED_REGION="90T")
    assert state == "error" and "LSCHED_REGION" in text


def limited(what, soft, hard=None):
    return lambda: resource.setrlimit(what, (soft, soft if hard is None else hard))


def test_limits():
    for subject, what, value, words in (
            ("ulimit -v", resource.RLIMIT_AS, 4 << 30, "limited to 4096 MiB: each of 3 ranks gets"),
            ("ulimit -f", resource.RLIMIT_FSIZE, 64 << 20, "files are limited to 64 MiB, but")):
        assert found(subject)[0] == "ok"
        state, text = found(subject, "--ranks", "3", limit=limited(what, value))
        assert state == "warning" and words in text and "LSCHED_REGION" in text
    assert found("ulimit -n")[0] == "ok"
    state, text = found("ulimit -n", "--ranks", "100", limit=limited(resource.RLIMIT_NOFILE, 64))
    assert state == "error" and "the launcher of 100 ranks takes 116: raise the limit" in text


def instruction(code, true, false, k):
    return struct.pack("HBBI", code, true, false, k)


def forbid(call):
    """Returns a function that installs a seccomp filter. The filter makes the system call fail with EPERM."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = (instruction(0x20, 0, 0, 0) + instruction(0x15, 0, 1, call) + instruction(0x06, 0, 0, 0x00050001) +
               instruction(0x06, 0, 0, 0x7fff0000))

    def apply():
        code = ctypes.create_string_buffer(program)
        described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(code)))
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, described, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")

    return apply


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of the system call is that of x86-64")
def test_ranks_that_may_not_read_each_other():
    assert found("reading peers")[0] == "ok"
    state, text = found("reading peers", limit=forbid(310))  # process_vm_readv
    assert state == "warning" and "cannot read each other's memory" in text


def test_fewer_cores_than_the_machine_has():
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        pytest.skip("there is one core")
    state, text = found("cores", limit=lambda: os.sched_setaffinity(0, cores[:1]))
    assert state == "warning" and "may use 1 of" in text and "affinity" in text


def test_a_driver_that_is_broken(tmp_path):
    libm = re.search(r"libm\.so\.6 .*=> (\S+)", subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True,
                                                                 check=True).stdout).group(1)
    shutil.copy(libm, tmp_path / "libcuda.so.1")
    state, text = found("GPU driver", LD_LIBRARY_PATH=str(tmp_path))
    assert state == "warning" and "the CUDA driver fails: error -1" in text
