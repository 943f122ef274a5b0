"""check.py REPAIRED RAW: checks that the repaired wheel runs on a machine with only Python and the C and C++ run-time.

Prints size, tags and external libraries. The programs run in a root directory that has only this interpreter, its
standard library, and the libraries that the interpreter and its library need. RAW, the wheel before its repair, must
fail in that root. Needs `unshare` (util-linux).
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

# Libraries of PEP 600, which every manylinux system has. The package uses no other external libraries.
EXTERNAL = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6",
            "ld-linux-x86-64.so.2"}
NEWEST_GLIBC = 34  # minor version in the wheel tag that docs/reference/python.md states

PROGRAM = """
import array, libsched
with libsched.init() as world:
    x = array.array("f", [world.rank] * 5)
    with world.allreduce(x) as step:
        step.run(timeout=30)
    assert world.size == 4 and list(x) == [6.0] * 5, list(x)
    print(f"rank {world.rank} of {world.size}\\n", end="", flush=True)
"""


def needed_by(file: pathlib.Path) -> set[str]:
    dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))


def external_libraries(wheel: pathlib.Path, folder: pathlib.Path) -> set[str]:
    """Returns the libraries that files of the wheel need and that the wheel does not contain."""
    zipfile.ZipFile(wheel).extractall(folder)
    programs = [file for file in folder.rglob("*") if file.is_file() and file.open("rb").read(4) == b"\x7fELF"]
    assert len(programs) >= 3, f"the wheel has only {programs}: the module, the library and the command are missing"
    return set().union(*map(needed_by, programs)) - {file.name for file in programs}


def libraries_of(files: list[str]) -> set[str]:
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", listed))


def make_root(root: pathlib.Path) -> None:
    """Copies this interpreter, its standard library, and the libraries that they need."""
    interpreter = os.path.realpath(sys.executable)
    library = sysconfig.get_path("stdlib")
    unwanted = ("site-packages", "dist-packages", "test", "tests", "__pycache__", "idlelib", "config-*")
    shutil.copytree(library, root / library[1:], ignore=shutil.ignore_patterns(*unwanted), symlinks=True)
    modules = [str(file) for file in pathlib.Path(library, "lib-dynload").glob("*.so")]
    runtime = libraries_of(["/usr/bin/env", interpreter, *modules])
    runtime |= {library_of_compiler(name) for name in ("libstdc++.so.6", "libgcc_s.so.1")}
    for file in {interpreter, *runtime}:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file[1:])
    for folder in ("proc", "dev", "tmp"):
        (root / folder).mkdir()
    present = [file.name for file in root.rglob("lib*") if re.match("lib(hwloc|tbb|hwy|pugixml|udev|mpi)", file.name)]
    assert not present, f"the root is not minimal: {present}"


def library_of_compiler(name: str) -> str:
    """Returns the path of the library that the dynamic loader finds by `name`."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return re.search(rf"^\s*{re.escape(name)} \(.*x86-64.*\) => (\S+)", cache, re.MULTILINE).group(1)


def run_in(root: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
    """Runs this interpreter with root directory `root`, with the package in /package."""
    enter = 'mount --rbind /proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$@"'
    command = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", enter, "sh",
               str(root), os.path.realpath(sys.executable), *words]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": "/package", "PYTHONHOME": sys.base_prefix,
                   "LD_LIBRARY_PATH": "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu", "HOME": "/tmp"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment},
                          check=False)


def install(wheel: pathlib.Path, root: pathlib.Path) -> None:
    shutil.rmtree(root / "package", ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", root / "package", wheel], check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("repaired", type=pathlib.Path)
    parser.add_argument("raw", type=pathlib.Path)
    given = parser.parse_args()
    tag = re.search(r"-manylinux_2_(\d+)_x86_64", given.repaired.name)
    assert tag and int(tag.group(1)) <= NEWEST_GLIBC, \
        f"{given.repaired.name}: the tag is above manylinux_2_{NEWEST_GLIBC}"

    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        external = external_libraries(given.repaired, place / "repaired")
        pages = place / "repaired/libsched/share/doc/libsched/docs"
        assert (pages / "reference/python.md").is_file(), "the wheel has no documents, which texts of the package name"
        assert external <= EXTERNAL, f"the wheel needs {external - EXTERNAL} of the system"
        assert external_libraries(given.raw, place / "raw") - EXTERNAL, "the raw wheel needs nothing: why repair it?"

        root = place / "root"
        make_root(root)
        install(given.raw, root)
        refused = run_in(root, "-c", "import libsched")
        assert refused.returncode != 0 and "cannot open shared object file" in refused.stderr, refused
        install(given.repaired, root)
        ran = run_in(root, "-m", "libsched", "run", "-n", "4", os.path.realpath(sys.executable), "-c", PROGRAM)
        ranks = sorted(ran.stdout.splitlines())
        assert ran.returncode == 0 and ranks == [f"rank {rank} of 4" for rank in range(4)], ran

    print(f"{given.repaired.name}: {given.repaired.stat().st_size / 1e6:.1f} MB, needs {', '.join(sorted(external))}; "
          "four ranks ran without hwloc, oneTBB and Highway of the system")


if __name__ == "__main__":
    main()
