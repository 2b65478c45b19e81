"""The spectral bias of two-layer linear nets that start at $I_γ$: W1 = √(2γ)P, W2 = 0.

With R = −∂L/∂β and β = W1 W2, gradient flow is W1' = R W2ᵀ, W2' = W1ᵀ R. A function that takes a
problem answers for that problem's own weight and time. One that takes none is written for
L = ½‖Xβ − Y‖²; another weight w only rescales time, t → 2wt.

`gradbias.theory` shows the public names; modules that take no problem do not import jax.
"""
