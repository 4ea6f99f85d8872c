"""Single-precision forms of objectives, for trainers of trees that take float32 derivatives.

Each is the same mathematics as its double-precision list function, laid out for vector
instructions, and is tested against it to 1e-5 of the largest gradient.
"""
