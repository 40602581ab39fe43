"""Machine code for people: select what to show, decode it, find out what each instruction refers to, write it.

select ──> instructions ──> listing ──> write_text, write_json
                              │ data        what is at an address
                              │ registers   addresses that take two instructions (AArch64)
                              │ calls       which function a call means, by caller
                              │ sources     files and lines
                              │ notes       what was found out
"""
