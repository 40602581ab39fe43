"""PE images: what identifies one and its debug information."""
