"""What is known of functions of the C and C++ runtime by their names alone."""

from __future__ import annotations

# They return to their caller: they jump or call to nothing that they were given. Functions often end with a jump to one
_LEAVES = frozenset(
    """_ZdlPv _ZdlPvm _ZdlPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPv _ZdaPvm _Znwm _Znam free malloc calloc realloc
    memcpy memmove memset memcmp memchr strlen strcmp strncmp strcpy strncpy strchr strrchr __cxa_end_catch
    __cxa_free_exception __cxa_atexit __cxa_thread_atexit __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort
    atexit pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock pthread_mutex_destroy pthread_mutex_init
    pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_rwlock_unlock
    pthread_cond_signal pthread_cond_broadcast""".split()
)
# std::string of the library, with its own allocator: likewise
_STRING = tuple(f"_ZN{const}St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE" for const in ("", "K"))
# They never return. Compilers put code behind a call of one that is reached from elsewhere
_ENDLESS = frozenset(
    """_Exit _Unwind_Resume __assert_fail __cxa_bad_cast __cxa_bad_typeid __cxa_pure_virtual __cxa_rethrow __cxa_throw
    __cxa_throw_bad_array_new_length __stack_chk_fail _exit abort exit longjmp pthread_exit quick_exit _ZSt9terminatev
    _ZSt10unexpectedv""".split()
)
_LIBRARY = "_ZSt"  # std::__throw_length_error and its kind
_THROWS = "__throw_"


def is_endless(symbol: str) -> bool:
    """Whether a function never returns."""
    name = symbol.partition("@")[0]
    return name in _ENDLESS or name.startswith(_LIBRARY) and _THROWS in name


def comes_back(symbol: str) -> bool:
    """Whether a jump to an imported function may lead back into a function of the image, other than to its caller."""
    name = symbol.partition("@")[0]
    return name not in _LEAVES and not name.startswith(_STRING) and not is_endless(name)
