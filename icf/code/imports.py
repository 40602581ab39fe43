"""What functions of the C and C++ runtime do, known by their names alone.

A function often ends with a jump to one of them, which leaves no frame. Most return to the caller and call no pointer
from their arguments; then no code of the program runs in place of the jump. That holds for the functions listed
here alone, and for each only while the process keeps the runtime's own definition of the functions that it tail-calls:

    jmp _ZdlPvm@plt         the runtime's sized operator delete, which is   jmp _ZdlPv@plt
    _ZdlPv                  and that is the program's own, where it defines one

`__cxa_end_catch` is not among them: it jumps to an address in the exception object, which any module may have made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

# a function, and those that its code may tail-call by name; those in turn have theirs
_GOES_ON_TO = {
    name: tuple(others.split())
    for name, _, others in (
        line.strip().partition(" ")
        for line in """\
        malloc
        free
        calloc malloc
        realloc malloc free
        _Znwm malloc
        _ZnwmRKSt9nothrow_t _Znwm
        _ZnwmSt11align_val_t aligned_alloc posix_memalign memalign
        _ZnwmSt11align_val_tRKSt9nothrow_t _ZnwmSt11align_val_t
        _Znam _Znwm
        _ZnamRKSt9nothrow_t _Znam _ZnwmRKSt9nothrow_t
        _ZnamSt11align_val_t _ZnwmSt11align_val_t
        _ZnamSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_t _ZnwmSt11align_val_tRKSt9nothrow_t
        _ZdlPv free
        _ZdlPvm _ZdlPv
        _ZdlPvRKSt9nothrow_t _ZdlPv
        _ZdlPvSt11align_val_t free
        _ZdlPvmSt11align_val_t _ZdlPvSt11align_val_t
        _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdlPvSt11align_val_t
        _ZdaPv _ZdlPv
        _ZdaPvm _ZdaPv
        _ZdaPvRKSt9nothrow_t _ZdaPv _ZdlPvRKSt9nothrow_t
        _ZdaPvSt11align_val_t _ZdlPvSt11align_val_t
        _ZdaPvmSt11align_val_t _ZdaPvSt11align_val_t
        _ZdaPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_t _ZdlPvSt11align_val_tRKSt9nothrow_t
        memcpy
        memmove
        memset
        memcmp
        memchr
        strlen
        strcmp
        strncmp
        strcpy
        strncpy
        strchr
        strrchr
        atexit __cxa_atexit calloc
        __cxa_atexit calloc
        __cxa_thread_atexit __cxa_thread_atexit_impl calloc malloc
        __cxa_free_exception free
        __cxa_guard_acquire syscall
        __cxa_guard_release syscall
        __cxa_guard_abort syscall
        pthread_mutex_lock
        pthread_mutex_trylock
        pthread_mutex_unlock
        pthread_mutex_destroy
        pthread_mutex_init
        pthread_rwlock_rdlock
        pthread_rwlock_wrlock
        pthread_rwlock_unlock
        pthread_cond_signal
        pthread_cond_broadcast
        __cxa_allocate_exception malloc
        __cxa_begin_catch
        __cxa_get_exception_ptr
        __dynamic_cast
        _ZNSt9exceptionD1Ev
        _ZNSt9exceptionD2Ev
        _ZNSt9exceptionD0Ev _ZdlPv _ZdlPvm
        _ZNSt11logic_errorD1Ev _ZdlPv _ZdlPvm
        _ZNSt11logic_errorD2Ev _ZdlPv _ZdlPvm
        _ZNSt11logic_errorD0Ev _ZdlPv _ZdlPvm
        _ZNSt13runtime_errorD1Ev _ZdlPv _ZdlPvm
        _ZNSt13runtime_errorD2Ev _ZdlPv _ZdlPvm
        _ZNSt13runtime_errorD0Ev _ZdlPv _ZdlPvm
        _ZSt11_Hash_bytesPKvmm
        _ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base
        _ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base
        _ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base
        _ZSt18_Rb_tree_decrementPKSt18_Rb_tree_node_base
        _ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_
        _ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_
        _ZNSt8__detail15_List_node_base7_M_hookEPS0_
        _ZNSt8__detail15_List_node_base9_M_unhookEv
        _ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_
        _ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm
        _ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm
        _ZNSt6chrono3_V212steady_clock3nowEv
        _ZNSt6chrono3_V212system_clock3nowEv""".splitlines()
    )
}
# They compute a result from their arguments
_COMPUTE = """strcat strncat strstr strspn strcspn strpbrk strcasecmp strncasecmp strnlen stpcpy memrchr strtol strtoll
    strtoul strtoull strtod strtof strtold atoi atol atoll atof abs labs toupper tolower isalpha isdigit isalnum
    isspace isupper islower isxdigit isprint ispunct __errno_location __ctype_b_loc
    __ctype_tolower_loc __ctype_toupper_loc wcslen wmemcpy wmemset wmemcmp clock time clock_gettime getpid""".split()
# Functions of <math.h> on double; those on float and long double have an f or l more
_MATH = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim
    floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround
    modf nearbyint nextafter pow remainder remquo rint round scalbln scalbn sin sincos sinh sqrt tan tanh tgamma
    trunc""".split()
_GOES_ON_TO |= dict.fromkeys([*_COMPUTE, *(name + kind for name in _MATH for kind in ("", "f", "l"))], ())
# std::string of the library, with its own allocator: its members tail-call others of them, and these
_STRING = tuple(f"_ZN{const}St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE" for const in ("", "K"))
_STRING_GOES_ON_TO = (*(f"{prefix}*" for prefix in _STRING), "_Znwm", "_ZdlPv", "_ZdlPvm", "memcpy", "memmove")
# They never return. Compilers put code after a call of one that is reached on other paths
_ENDLESS = frozenset(
    """_Exit _Unwind_Resume __assert_fail __cxa_bad_cast __cxa_bad_typeid __cxa_pure_virtual __cxa_rethrow __cxa_throw
    __cxa_throw_bad_array_new_length __stack_chk_fail _exit abort exit longjmp pthread_exit quick_exit _ZSt9terminatev
    _ZSt10unexpectedv""".split()
)
_LIBRARY = "_ZSt"  # std::__throw_length_error and its kind
_THROWS = "__throw_"
_ENDLESS_GO_ON_TO = ("abort", "_exit", "__cxa_throw", "_ZSt9terminatev")
# what a module exports that is the runtime: of C, of C++
_MARKS_OF_C, _MARKS_OF_CXX = ("__libc_start_main", "__tls_get_addr"), ("_ZSt9terminatev",)


def is_endless(symbol: str) -> bool:
    """Return whether a function never returns."""
    name = symbol.partition("@")[0]
    return name in _ENDLESS or name.startswith(_LIBRARY) and _THROWS in name


@cache
def goes_on_to(symbol: str) -> frozenset[str] | None:
    """Return the names that the runtime's function may tail-call, `prefix*` among them; None: pointers, too."""
    name = symbol.partition("@")[0]
    if is_endless(name):
        return frozenset(_ENDLESS_GO_ON_TO) - {name}
    todo = list(_STRING_GOES_ON_TO if name.startswith(_STRING) else _GOES_ON_TO.get(name, (name,)))
    if todo == [name]:
        return None
    found: set[str] = set()
    while todo:
        other = todo.pop()
        if other not in found:
            found.add(other)
            todo += _GOES_ON_TO.get(other, ())
    return frozenset(found - {name})


def comes_back(symbol: str, is_replaced: Callable[[str], bool]) -> bool:
    """Return whether a jump to an imported function may lead back into a function outside of the runtime.

    `is_replaced` says of a name, or `prefix*`, whether the process has a definition of its own.
    """
    names = goes_on_to(symbol)
    return names is None or any(map(is_replaced, names))


def marks_of_owner(name: str) -> tuple[str, ...]:
    """Return names of which the runtime library exports at least one, if it is the usual owner of a name."""
    return _MARKS_OF_CXX if name.startswith(("_Z", "__cxa_")) else _MARKS_OF_C
