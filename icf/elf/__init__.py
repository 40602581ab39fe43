"""ELF images: headers, sections, symbols, relocations, PLT stubs; `icf.elf.image.Image` is the way in."""
