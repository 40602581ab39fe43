"""Debug information in other files than the image: separate ones, split DWARF, supplementary ones; found and opened."""
