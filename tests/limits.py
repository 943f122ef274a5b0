"""limits.py LEAST COMMAND...: fails if tests have no time limit, or a limit below LEAST seconds, and names these tests.

COMMAND prints the tests as `ctest --show-only=json-v1` does.
"""
import json
import subprocess
import sys

least = float(sys.argv[1])
tests = json.loads(subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, check=True).stdout)["tests"]
faults = []
for test in tests:
    properties = {each["name"]: each["value"] for each in test.get("properties", [])}
    limit = properties.get("TIMEOUT")
    if limit is None:
        faults.append(f"{test['name']}: no limit")
    elif limit < least:
        faults.append(f"{test['name']}: {limit:g} s, below {least:g} s")
print("\n".join(faults) or f"{len(tests)} tests have limits of at least {least:g} s")
sys.exit(1 if faults or not tests else 0)
