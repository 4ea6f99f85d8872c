"""Conditional models of rankings (Dubey et al. 2009): ranking state, sampler and objectives."""
