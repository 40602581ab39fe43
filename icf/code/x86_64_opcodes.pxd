# Written by tools/shared.py from x86_64_opcodes.py: change that.

cdef enum:
    IB = 0x1
    IW = 0x2
    IZ = 0x3
    IV = 0x4
    MOFFS = 0x5
    IWB = 0x6
    MODRM = 0x10
    BYTE = 0x20
    SPECIAL = 0x40
    INVALID = 0x80
    RM = 0x100
    REG = 0x200
    AX = 0x400
    DX = 0x800
    CX = 0x1000
    MEM = 0x2000
    ALL = 0x8000
    OPERAND = 0xf
    CX_REGISTER = 0x1
    SP = 0x4
    BP = 0x5
    TEMPORARY = 0x10
    NO_REGISTER = -1
    RELATIVE = -2
    LOW = 0xffffffff
