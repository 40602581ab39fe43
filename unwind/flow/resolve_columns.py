"""`icf resolve` of stacks in Parquet, with Parquet as result: columns in, columns out."""

from __future__ import annotations

from argparse import Namespace

from unwind.arrow.answers import SCHEMA
from unwind.arrow.files import ParquetStacks
from unwind.arrow.sink import ParquetPieces
from unwind.batch.resolver import BatchResolver
from unwind.flow.progress import Progress
from unwind.options import losses_of
from unwind.output import open_output
from unwind.readers.source import Source
from unwind.target.search import SearchPaths


def resolve_columns(args: Namespace, stacks: ParquetStacks, source: Source) -> bool:
    """Write the answers for all stacks; return whether any frame of any stack is known, or there was none.

    Raises `IcfError` for a file that is damaged, or a value that breaks its rule; nothing is written then.
    """
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    pieces, row_count = ParquetPieces(SCHEMA), 0
    resolver = BatchResolver(
        args.exe,
        losses=losses_of(args, stacks.losses),
        search=search,
        module_roots=args.module_root,
        with_lines=not args.no_lines,
        use_vptrs=not args.no_vptr,
        path=stacks.path,
    )
    with resolver, open_output(args) as out, Progress(source.stream) as progress:
        for batch in stacks.batches():
            out.writelines(pieces.write(resolver.resolve(batch)))
            row_count += batch.num_rows
            progress.step(batch.num_rows)
        out.writelines(pieces.end())
        resolver.report()
    return resolver.is_any_known or not row_count
