"""What codes mean, in words for the page."""

from __future__ import annotations

from icf.model import Evidence
from unwind.report.data import Doubt
from unwind.resolve.answer import BY_VPTR
from unwind.symbolize.reasons import ReasonCode

DOUBTS = {
    Doubt.UNNAMED: "Functions that nothing names may share the body.",
    Doubt.UNRECORDED: "A direct call of it may have no record.",
    Doubt.POINTERS: "Calls through pointers lead to several of its functions.",
    Doubt.CALLERS: "Its callers share a body themselves, and a frame of that may stay open.",
}

REASONS = {
    ReasonCode.OUTSIDE: "The frame lies outside of the image.",
    ReasonCode.NO_FUNCTION: "The frame lies in no function of the image.",
    ReasonCode.NO_MODULE: "The frame lies in no module whose image is known.",
    ReasonCode.NOTHING_MAPPED: "Nothing is mapped at the address.",
    ReasonCode.NOT_AFTER_CALL: "The address does not follow a call: the stack, or the image, is another one.",
    ReasonCode.NO_CALLER: "The caller is not known.",
    ReasonCode.SEVERAL_CALLERS: "The caller is itself one of several functions, which call different ones here.",
    ReasonCode.LOST_CALLER: "Frames may be missing between this one and its caller.",
    ReasonCode.MISSING_FRAME: "A frame is missing next to this one: only so does it fit the stack.",
    ReasonCode.FROM_OUTSIDE: "The call comes from outside of the image.",
    ReasonCode.NO_RECORD: "The tables have no record of the call.",
    ReasonCode.INDIRECT_CALL: "The call goes through a pointer.",
    ReasonCode.VIRTUAL_CALL: "The call goes through a vtable, and the class of the object is not known.",
    ReasonCode.IMPORT_CALL: "The call goes to another module.",
    ReasonCode.NO_CALL: "The instruction before the return address is not a call.",
    ReasonCode.UNREADABLE: "The code at the call cannot be read.",
    ReasonCode.SEVERAL_CALLEES: "The caller may call several of the functions there.",
    ReasonCode.SEVERAL_JUMPS: "What the caller calls there may tail-call several of the functions.",
    ReasonCode.JUMP_TO_ANYWHERE: "What the caller calls there leaves by a jump that no table lists.",
    ReasonCode.POINTER_JUMP: "What the caller calls there may tail-call through a pointer.",
    ReasonCode.SEVERAL_TAIL_CALLERS: "Several of the functions may have made the tail call.",
    ReasonCode.UNNAMED_MEMBERS: "Functions that nothing names may share the body.",
    ReasonCode.CONTRADICTED: "None of the functions fits the stack: the recording and the image differ.",
}

EVIDENCE = {
    Evidence.TABLE.name.lower(): "a table in the image says which function the call means",
    Evidence.RELOCATION.name.lower(): "a relocation of the link names the function that is called",
    Evidence.OBJECT.name.lower(): "an object file of the link names the function that is called",
    Evidence.DWARF.name.lower(): "the debug information of the call names the function",
    Evidence.ALIGNED.name.lower(): "the call stands at the same place as that of the function that was kept",
    Evidence.DECODED.name.lower(): "the machine code of the call",
    BY_VPTR: "the vtable pointer of the object",
    "": "the other functions cannot be called there",
}
