"""`set icf ...`: how the plug-in of gdb starts its helper, how long it waits, what it shows."""

from __future__ import annotations

import shlex
from typing import Any

import gdb

from unwind.debugger.inside.client import Helper
from unwind.debugger.inside.find import default_command

_TIMEOUT_S = 10


class Settings:
    """The values of the parameters, and the helper that they describe."""

    def __init__(self) -> None:
        _Prefix("set icf")
        _Prefix("show icf")
        self._command = _Parameter("icf command", gdb.PARAM_STRING, default_command(), "Command that runs icf.")
        self._timeout_s = _Parameter(
            "icf timeout", gdb.PARAM_UINTEGER, _TIMEOUT_S, "Seconds to wait for icf to name the frames of a stack."
        )
        self._remarks = _Parameter(
            "icf remarks", gdb.PARAM_BOOLEAN, True, "Whether backtraces show why a function is the one named."
        )
        self._helper = Helper([])
        self._helper_command = ""

    @property
    def timeout_s(self) -> float:
        """How long to wait for an answer."""
        return float(self._timeout_s.value or 1 << 20)  # None: unlimited

    @property
    def remarks(self) -> bool:
        """Whether names have a remark."""
        return bool(self._remarks.value)

    @property
    def helper(self) -> Helper:
        """The helper process of the command that is set now."""
        command = self._command.value or ""
        if command != self._helper_command:
            self._helper.stop()
            self._helper, self._helper_command = Helper(shlex.split(command)), command
        return self._helper


class _Prefix(gdb.Command):  # type: ignore[misc]
    """Parameters of the icf plug-in, which names functions that the linker has merged."""

    def __init__(self, name: str) -> None:
        super().__init__(name, gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class _Parameter(gdb.Parameter):  # type: ignore[misc]
    """A value with a name."""

    __doc__ = ""  # gdb prints it; `set_doc` says what the parameter is

    def __init__(self, name: str, kind: int, value: Any, text: str) -> None:
        self.set_doc = self.show_doc = text
        self._text = text
        super().__init__(name, gdb.COMMAND_STACK, kind)
        self.value = value

    def get_set_string(self) -> str:
        """Return what `set` prints: nothing."""
        return ""

    def get_show_string(self, value: str) -> str:
        """Return what `show` prints."""
        return "{} {}".format(self._text, value)
