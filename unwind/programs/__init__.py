"""What is known of one image: bodies and who may be each, call-site records, code.

load     from the image's own tables; `foreign` from those of another tool, `unwind.symcache.program` from a symcache
program  what the resolver asks: bodies, their candidates and what calls, jumps and pointers lead to
code     the instructions before a return address, the jumps of a function: from `facts` of an image or a symcache
"""
