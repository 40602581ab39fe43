"""What runs on stacks and addresses: who is it, really?

opening       the image, modules or process that stacks come from: by symcaches (`symcache/`), or live (`live/`)
read_pcs      stacks as text; answers go to write_text, write_json
program       what is known of one image: bodies, records, code; load reads it, foreign where the tables are not ours
process       the programs of several modules together; exports and modules: what they define, where they lie
resolver      stacks to answers: chain finds what fits all frames, relations what a call allows, dispatch and vptrs
              where pointers lead, callgraph and tailpaths what jumps leave out, explain why
symbolizer    addresses to names, inlined functions and lines; symbolize/ has how other tools ask and answer
disasm/       machine code with what its calls mean

Commands are in cmd_*.
"""
