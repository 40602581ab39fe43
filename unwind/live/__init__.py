"""A process that runs: what its addresses mean now.

modulefile, memoryimage    the file of a mapping, or what is in its memory
perfmap, jitdump           functions made at run time, in two formats
jitfiles, growing          such files are found, and read on as they grow; jitcode and regions: what they say
process                    all of it, looked at again for each question
resolver, symbolizer       stacks and addresses
"""
