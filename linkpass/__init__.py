"""What runs in a build: a pass over the linked image that writes down what each of its calls means.

    pipeline     the pass, as a list of steps
    linked       the image before its calls are looked at: bodies, their members, and the way back
    pointer_jumps, relocation_types    its calls and jumps through pointers; what its relocations say of their places
    objects/     what the objects of the link say, and where in the image they lie
    evidence/    who calls whom: relocations, objects, debug information, aligned call sites; collected into records
    pointers/    whose address is taken, what is in the slots of vtables, where calls through pointers lead
    tables/      from records to bytes, and back: `icf verify`
    rewrite/     the tables into the image, with nothing else changed
    link/        `icf link`: understand a link command, run it, then the pass
    annotate     objects that carry what they know of their calls through any link
    keep_unique  which functions should stay unfolded

Commands are in cmd_*.
"""
