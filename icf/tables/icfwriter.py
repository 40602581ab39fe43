"""Writes `.debug_icf`, whose format `icf.tables.icftable` describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from icf.columns import I64, U64
from icf.elf.codedigest import DIGEST_BYTES
from icf.tables import _leb
from icf.tables.foldtable import IcfColumns, IcfTable
from icf.tables.icftable import EVIDENCE_MAX, RUN_MAX, VERSION, WITHOUT_CALLBACKS

_PART = 1 << 14  # names that are looked through together


def encode_icf(table: IcfTable, debug_str_offsets: Mapping[str, int] | None = None, *, dwarf64: bool = False) -> bytes:
    """Return the section for `table`; names found in `debug_str_offsets` are stored as that offset of `.debug_str`.

    Without `debug_str_offsets` the names stay where the columns have them.
    """
    columns = table.columns
    member_name, alias_name, pool = columns.member_name, columns.alias_name, bytes(columns.pool)
    if debug_str_offsets is not None:
        member_name, alias_name, pool = _place_names_again(columns, debug_str_offsets)
    runs, vcall_runs = _evidence_runs(table.evidence), _evidence_runs(table.vcall_evidence)
    address_size = 8
    has_callbacks = len(columns.callback_site) > 0
    counts = np.array(
        [
            len(columns.class_vaddr),
            len(columns.member_die),
            len(alias_name),
            len(columns.tail_jump),
            len(columns.pointer_jump),
            len(columns.vtable_vaddr),
            len(columns.slot),
            len(runs),
            len(vcall_runs),
            len(pool),
            len(columns.type_start) - 1,
            len(columns.type_group),
            len(columns.object_start) - 1,
            len(columns.object_type),
            *([len(columns.callback_site)] if has_callbacks else []),
        ],
        np.uint64,
    )
    body = [
        bytes([VERSION if has_callbacks else WITHOUT_CALLBACKS, address_size]),
        int(table.image_flags).to_bytes(4, "little"),
        table.code_digest.ljust(DIGEST_BYTES, b"\0"),
        _ulebs(counts),
        _ulebs(_differences(columns.class_vaddr)),
        _ulebs(columns.class_size),
        columns.class_flags.tobytes(),
        _ulebs(np.diff(columns.member_start)),
        columns.member_flags.tobytes(),
        _ulebs(_signed_differences(columns.member_die)),
        _ulebs(_signed_differences(member_name)),
        _ulebs(_differences(columns.alias_member)),
        _ulebs(_signed_differences(alias_name)),
        _ulebs(_differences(columns.tail_jump)),
        _ulebs(columns.tail_caller),
        _ulebs(columns.tail_callee),
        _ulebs(_differences(columns.pointer_jump)),
        _ulebs(columns.pointer_slot),
        _ulebs(columns.pointer_object),
        _ulebs(_differences(columns.vtable_vaddr)),
        _ulebs(columns.vtable_vaddr - columns.vtable_group),
        _ulebs(_signed_differences(columns.vtable_die)),
        _ulebs(np.diff(columns.slot_start)),
        _ulebs(_within(columns.slot, columns.slot_start)),
        _ulebs(_signed_differences(columns.slot_function)),
        _ulebs(np.diff(columns.type_start)),
        _ulebs(_within(columns.type_group, columns.type_start)),
        _ulebs(np.diff(columns.object_start)),
        _ulebs(_within(columns.object_member, columns.object_start)),
        _ulebs(_signed_differences(columns.object_type)),
        _ulebs(_differences(columns.callback_site)),
        _ulebs(columns.callback_caller),
        _ulebs(columns.callback_callee),
        columns.callback_evidence.tobytes(),
        runs,
        vcall_runs,
        _ulebs(columns.vcall_object),
        pool,
    ]
    unit_length = sum(map(len, body))
    if dwarf64:
        return b"".join([b"\xff\xff\xff\xff", unit_length.to_bytes(8, "little"), *body])
    if unit_length >= 0xFFFFFFF0:
        raise ValueError(f"table of {unit_length} bytes needs 64-bit DWARF")
    return b"".join([unit_length.to_bytes(4, "little"), *body])


def place_names(names_of: Callable[[I64], list[str]], in_debug_str: I64) -> tuple[U64, bytes]:
    """Return the offset of each name in the final name space, and its pool.

    Names are in the pool once, but for those whose offset in .debug_str is known: `in_debug_str`, else -1. `names_of`
    returns some of the names, by their index; few are kept, as a large program has 100 MB of them.
    """
    others = np.flatnonzero(in_debug_str < 0)
    texts = names_of(others)
    wanted = set(texts)
    shared: dict[str, int] = {}
    known = np.flatnonzero(in_debug_str >= 0) if wanted else others[:0]
    for part in np.split(known, range(_PART, len(known), _PART)):
        offsets = zip(names_of(part), in_debug_str[part].tolist(), strict=True)
        shared |= {name: offset for name, offset in offsets if name in wanted}
    pool = bytearray()
    placed: dict[str, int] = {}
    found = in_debug_str.copy()
    in_pool = []
    for at, name in zip(others.tolist(), texts, strict=True):
        if name in shared:
            found[at] = shared[name]
            continue
        if name not in placed:
            raw = name.encode("utf-8", "surrogateescape")
            if 0 in raw:
                raise ValueError(f"name {name!r} contains a NUL")
            placed[name] = len(pool)
            pool += raw + b"\0"
        found[at] = placed[name]
        in_pool.append(at)
    is_shared = np.ones(len(found), np.bool_)
    is_shared[in_pool] = False
    return (found + is_shared * len(pool)).astype(np.uint64), bytes(pool)


def _place_names_again(columns: IcfColumns, debug_str_offsets: Mapping[str, int]) -> tuple[U64, U64, bytes]:
    """Return offsets of member and alias names in the final name space, and its pool."""
    offsets = np.concatenate([columns.member_name, columns.alias_name])
    _, first_use, inverse = np.unique(offsets, return_index=True, return_inverse=True)
    by_first_use = np.argsort(first_use)
    final = np.empty(len(first_use), np.uint64)
    names = [columns.name(int(offset)) for offset in offsets[first_use[by_first_use]]]
    in_debug_str = np.array([debug_str_offsets.get(name, -1) for name in names], np.int64)
    final[by_first_use], pool = place_names(lambda rows: [names[row] for row in rows.tolist()], in_debug_str)
    result = final[inverse.reshape(-1)]
    member_count = len(columns.member_name)
    return result[:member_count], result[member_count:], pool


def _within(slot: U64, slot_start: U64) -> U64:
    """Return slots as differences, anew in each vtable."""
    differences = slot.copy()
    differences[1:] -= slot[:-1]
    first = slot_start[:-1].astype(np.int64)
    differences[first] = slot[first]
    return differences


def _evidence_runs(evidence: bytes) -> bytes:
    kinds = np.frombuffer(evidence, np.uint8)
    if not len(kinds):
        return b""
    if not 1 <= int(kinds.min()) <= int(kinds.max()) <= EVIDENCE_MAX:
        raise ValueError(f"evidence is one of 1 to {EVIDENCE_MAX}")
    change = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1]))
    length = np.diff(np.append(change, len(kinds)))
    full, rest = (length - 1) // RUN_MAX, (length - 1) % RUN_MAX  # full runs before the last, and that one less 1
    repeat = np.full(int((full + 1).sum()), RUN_MAX - 1, np.uint8)
    repeat[np.cumsum(full + 1) - 1] = rest
    return (repeat << 3 | np.repeat(kinds[change], full + 1)).astype(np.uint8).tobytes()


def _ulebs(values: U64) -> bytes:
    out = np.empty(10 * len(values), np.uint8)
    return out[: _leb.uleb_write(np.ascontiguousarray(values).data, out.data)].tobytes()


def _differences(values: U64) -> U64:
    return np.diff(values, prepend=np.uint64(0))


def _signed_differences(values: U64) -> U64:
    if len(values) and int(values.max()) >> 63:
        raise ValueError(f"{int(values.max()):#x} does not fit 63 bits")
    difference = values.astype(np.int64)
    difference[1:] -= difference[:-1].copy()
    doubled: I64 = np.left_shift(difference, 1)
    return np.where(difference < 0, ~doubled, doubled).astype(np.uint64)
