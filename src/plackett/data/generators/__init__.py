"""Simulated worlds behind :func:`plackett.data.synthetic.synthetic`."""
