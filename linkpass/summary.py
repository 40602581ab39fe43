"""What a pass found, in lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icf.printable import printable

if TYPE_CHECKING:
    from linkpass.options import Summary


def summary_lines(summary: Summary) -> list[str]:
    """Return the result of a run as lines for people; names in them are escaped for terminals."""
    return [printable(line) for line in _lines(summary)]


def _lines(summary: Summary) -> list[str]:
    if summary.already_done:
        counts = f"{summary.records} call sites, {summary.merged_bodies} merged bodies"
        return [f"{summary.tables_file}: has its tables already: {counts}", *_keep_unique_lines(summary)]
    kinds = ", ".join(f"{count} {kind}" for kind, count in summary.records_by_evidence.items())
    share = 100 * summary.table_bytes / summary.debug_info_bytes if summary.debug_info_bytes else 0.0
    of_debug_info = f", {share:.2f} % of .debug_info" if 0 < share <= 100 else ""
    lines = [
        f"{summary.out}: {summary.members} functions share {summary.merged_bodies} of {summary.functions} bodies",
        f"  call sites  {summary.records} ({kinds})" if kinds else "  call sites  0",
        f"  tail calls  {summary.tail_calls}",
        f"  tables      {summary.table_bytes} bytes{of_debug_info}",
    ]
    if summary.vtables:
        counts = (
            f"{summary.virtual_calls} of {summary.indirect_calls} calls through pointers, {summary.vtables} vtables"
        )
        lines.insert(3, f"  virtual     {counts}")
    if summary.callbacks:
        lines.insert(3, f"  callbacks   {summary.callbacks}")
    if summary.tables_file != summary.out:
        lines.append(f"  written to  {summary.tables_file}")
    if summary.declarations_added:
        file = summary.debug_file or "the image"
        lines.append(f"  declared    {summary.declarations_added} functions that have no debug information in {file}")
    if summary.open_calls:
        lines.append(f"  unresolved  {summary.open_calls} calls (no evidence names the callee)")
    for reason, count in summary.dropped.items():
        lines.append(f"  left out    {count} statement{'s' if count != 1 else ''} ({reason})")
    return lines + _keep_unique_lines(summary)


def _keep_unique_lines(summary: Summary) -> list[str]:
    """Return the cost of giving every frame one name."""
    found = summary.keep_unique
    if found is None:
        return []
    from icf.demangle import demangle

    lines = [
        f"  keep unique {len(found.functions)} functions: {found.size_bytes} bytes of code,"
        f" {found.caller_bytes} of them in functions that call them"
    ]
    lines += [f"    {kept.size_bytes:6} {demangle(kept.linkage_name)}" for kept in found.functions]
    if found.impossible:
        lines.append(f"  not unique  {len(found.impossible)} local functions, which no linker option can name")
        lines += [f"    {'':6} {demangle(name)}" for name in found.impossible]
    if found.unlisted:
        lines.append(f"  not unique  {found.unlisted} bodies whose functions are not all known")
    return lines
