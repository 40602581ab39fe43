"""Where to find the symcache and the program of an image."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from icf.errors import IcfError
from unwind.program.exports import Exports
from unwind.program.program import Linkage, Program
from unwind.symcache.reader.program import has_program, load_cached
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.store import open_or_build

if TYPE_CHECKING:
    from icf.image import AnyImage


class SearchPaths(NamedTuple):
    """Where to search for debug information, and where symcaches are kept (None: the user's directory)."""

    debug_file: str | None = None
    debug_roots: Sequence[str] = ()
    cache_dir: str | None = None
    shared_caches: Sequence[str] = ()

    def open(self, path: str) -> SymCache:
        """Return the symcache of an image."""
        return open_or_build(
            path,
            debug_file=self.debug_file,
            debug_roots=self.debug_roots,
            cache_dir=self.cache_dir,
            shared_caches=self.shared_caches,
        )

    def for_module(self, image: AnyImage | None) -> SearchPaths:
        """Return the paths for one of several images: with the debug file that the user has named if it is its own."""
        if self.debug_file is None or (image is not None and self._is_own(image)):
            return self
        return self._replace(debug_file=None)

    def _is_own(self, image: AnyImage) -> bool:
        """Return whether the debug file is that of an image."""
        assert self.debug_file is not None
        if image.format == "PE":
            from icf.pe.debugfile import wrong_pdb

            return not wrong_pdb(self.debug_file, image.build_id)
        from icf.debugfiles.search import open_debug_file

        try:
            open_debug_file(image, self.debug_file).close()
        except IcfError:
            return False
        return True

    def program(
        self,
        cache: SymCache,
        path: str,
        opened: ExitStack,
        exports: Exports | None = None,
        linkage: Linkage | None = None,
    ) -> Program:
        """Return the program of a symcache, or of its image, which is closed with `opened`.

        The symcache has its lines.
        """
        if has_program(cache):
            program = load_cached(cache, exports, linkage)
        else:
            from icf.debugfiles.opening import open_with_debug
            from unwind.program.from_image import load_program

            image = opened.enter_context(open_with_debug(path, self.debug_file, self.debug_roots))
            program = load_program(image, exports, linkage)
        program.lines = cache
        return program
