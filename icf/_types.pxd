# The C types that kernels name in their annotations.

ctypedef unsigned long long u64
ctypedef long long i64
ctypedef const unsigned char[::1] Bytes
