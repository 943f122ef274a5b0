"""Raises ImportError in a subinterpreter.

The types of the extension module belong to the first interpreter that imports the module.
"""

try:
    import _interpreters as _all  # Python 3.13 and later
except ImportError:
    import _xxsubinterpreters as _all  # type: ignore[import-not-found,no-redef]


def _number(told) -> int:
    return int(told[0] if isinstance(told, tuple) else told)


if _number(_all.get_current()) != _number(_all.get_main()):
    raise ImportError("libsched works only in the main interpreter of a process: import libsched there, not in a "
                      "subinterpreter")
