"""ELF images: headers, sections, symbols, relocations, PLT stubs; begin with `icf.elf.image.Image`."""
