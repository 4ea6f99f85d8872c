"""The lowest layer: errors, ragged arrays, gains and discounts, compiled kernels, files."""
