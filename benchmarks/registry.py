"""All workloads, in the order in which they run: a module, a line."""

from . import cold, diffusion, flow, growth, limit, w1, w2, w3, w4, w5, w5_limit, w6

MODULES = (w1, w2, w3, w4, w5, w5_limit, flow, diffusion, w6, limit, cold, growth)
