"""Tests the script changes in docs/reference/training.md: each change has few lines, and the changed scripts run."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[4]
SCRIPT = (ROOT / "docs/examples/ddp.py").read_text()
DIFFS = re.findall(r"```diff\n(.*?)```", (ROOT / "docs/reference/training.md").read_text(), re.DOTALL)


def applied(diff):
    lines = diff.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
    assert SCRIPT.count(old) == 1, old
    return SCRIPT.replace(old, new)


def test_the_guide_shows_them():
    assert len(DIFFS) == 4


@pytest.mark.parametrize("diff", DIFFS)
def test_it_trains(diff, tmp_path):
    assert sum(line.startswith("+") for line in diff.splitlines()) + 2 <= 5, "with the import and the backend's name"
    script = tmp_path / "changed.py"
    script.write_text(applied(diff))
    told = subprocess.run([sys.executable, "-m", "libsched", "run", "-n", "3", "--timeout", "60", sys.executable,
                           str(script)], capture_output=True, text=True, timeout=90)
    assert told.returncode == 0, told.stderr
    found = re.fullmatch(r"the worst weight of 3 replicas is (\S+) off\n", told.stdout)
    assert found and float(found[1]) < 0.05, told.stdout
