"""Stacks by the million, as columns of Apache Arrow: from a file, or as a step of an engine that many machines run.

from unwind.batch.resolver import BatchResolver

with BatchResolver(image="shop") as resolver:
    for batch in batches:  # record batches: addresses, weight
        write(resolver.resolve(batch))  # frames, weight, problem
"""
