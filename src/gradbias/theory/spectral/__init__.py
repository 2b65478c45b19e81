"""The spectral bias of two-layer linear nets that start at $I_γ$: W1 = √(2γ)P, W2 = 0.

With R = −∂L/∂β and β = W1 W2, gradient flow is W1' = R W2ᵀ, W2' = W1ᵀ R. A function that takes a
problem answers for that problem's own weight and time. One that takes none is written for
L = ½‖Xβ − Y‖²; another weight w only rescales time, t → 2wt.

Names are imported when they are used: what takes no problem does not import jax. `printed` has the
paper's own forms.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
