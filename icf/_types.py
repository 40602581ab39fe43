"""The C types that kernels name in their annotations; uncompiled, they are what Python has for them."""

u64 = int
i64 = int
Bytes = bytes | memoryview
