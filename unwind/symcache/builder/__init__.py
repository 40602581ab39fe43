"""Makes the content of a symcache from an image, its tables and its debug information."""
