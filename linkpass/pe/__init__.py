"""The pass for PE images: which function each direct call means, into a side table next to the PDB."""
