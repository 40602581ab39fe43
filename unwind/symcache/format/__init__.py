"""The bytes of a symcache: sections with checksums, records, and what identifies the image."""
