"""Optimisers as geometries: charges under momentum, balls of decay, floors of noise.

Momentum β is that of torch and `gb.Descent`: v ← βv + g, p ← p − lr·v; lr_e = lr/(1 − β).
`weight_decay` is λ as torch counts it. Names are imported when they are used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
