"""What every layer stands on: errors, ragged offsets, gains and discounts, content hashes."""
