"""Machine code for people: selects what to show, decodes it, finds what each instruction refers to, writes it.

select ──> instructions ──> listing ──> write_text, write_json
  │ names                     │ data        what is at an address; of a PE image `pe_data`
                              │ registers   addresses that take two instructions (AArch64)
                              │ calls       which function a call means, by caller
                              │ sources     files and lines
                              │ notes       the results
"""
