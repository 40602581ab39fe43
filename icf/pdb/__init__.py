"""Program databases (PDB), the debug information of PE images: `icf.pdb.file` opens one."""
