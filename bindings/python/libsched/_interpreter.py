"""Refuses an interpreter beside the main one: types of the extension module belong to the one that imports it first."""

try:
    import _interpreters as _all  # Python 3.13 and later
except ImportError:
    import _xxsubinterpreters as _all  # type: ignore[import-not-found,no-redef]


def _number(told) -> int:
    return int(told[0] if isinstance(told, tuple) else told)


if _number(_all.get_current()) != _number(_all.get_main()):
    raise ImportError("libsched serves the main interpreter of a process only")
