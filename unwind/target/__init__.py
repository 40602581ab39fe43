"""Opens images, lists of modules and running processes for the resolver and the symbolizer."""
