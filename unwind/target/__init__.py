"""Opens what stacks are resolved with: an image, a list of modules, a running process."""
