"""Single-precision forms of objectives, for tree trainers, which use float32 derivatives.

Each computes the same as its double-precision list function in a layout for vector instructions,
and is tested against it to 1e-5 of the largest gradient.
"""
