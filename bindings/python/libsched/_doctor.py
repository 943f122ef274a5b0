"""Findings about the packages libsched and torch of this interpreter.

`python -m libsched doctor` adds these findings to the output of `lsched doctor`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform

_PAGE = "docs/reference/python.md"


def _finding(subject: str, state: str, text: str, heading: str) -> dict[str, str]:
    return {"subject": subject, "state": state, "text": text, "page": f"{_PAGE}#{heading}"}


def _package() -> dict[str, str]:
    from . import __version__

    folder = os.path.dirname(os.path.abspath(__file__))
    text = f"libsched {__version__} in {folder}, Python {platform.python_version()}"
    return _finding("Python package", "ok", text, "install")


def _torch() -> dict[str, str]:
    heading = "from-gloo-to-lsched"
    if importlib.util.find_spec("torch") is None:
        return _finding("torch", "ok", "not installed: only libsched.torch needs it", heading)
    try:
        version = importlib.import_module("torch").__version__
        importlib.import_module("libsched.torch")
        known = importlib.import_module("torch.distributed").Backend.backend_list
    except Exception as error:  # torch, or another module of that name, may raise any exception
        text = f"libsched.torch cannot be imported: {type(error).__name__}: {error}"
        return _finding("torch", "error", text, heading)
    if "lsched" not in known:
        return _finding("torch", "error", "`import libsched.torch` did not register the backend lsched in torch "
                                          f"{version}", heading)
    return _finding("torch", "ok", f"torch {version} has the backend lsched after `import libsched.torch`", heading)


def findings_file() -> str:
    """Returns the path of a file in memory with the findings about libsched and torch.

    The file stays readable for the program that replaces this process (exec).
    """
    file = os.memfd_create("libsched-doctor", 0)
    os.write(file, json.dumps([_package(), _torch()]).encode())
    os.lseek(file, 0, os.SEEK_SET)
    return f"/proc/self/fd/{file}"
