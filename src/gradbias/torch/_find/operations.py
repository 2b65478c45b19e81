"""Operations by name, without their overload, grouped by what they do to scales."""

# Operations that only move entries: done to the exponents themselves.
MOVES = (
    *("transpose", "permute", "t", "flatten", "unflatten", "reshape"),
    *("squeeze", "unsqueeze", "select", "slice", "narrow", "expand", "expand_as", "repeat", "cat"),
    *("concat", "stack", "split", "split_with_sizes", "chunk", "unbind", "movedim", "swapaxes"),
    *("roll", "flip", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "numpy_T", "mT"),
    *("tile", "repeat_interleave", "diagonal", "unfold", "hstack"),
)
SAME = (
    *("contiguous", "clone", "detach", "alias", "dropout", "native_dropout", "feature_dropout"),
    *("alpha_dropout", "to", "_to_copy", "type_as", "float", "double", "neg", "lift_fresh_copy"),
    *("lift_fresh", "triu", "tril", "positive", "detach_copy"),
)
# Positively homogeneous of degree one, entry by entry.
HOMOGENEOUS = ("relu", "leaky_relu", "abs", "rrelu", "rrelu_with_noise")
# Known, and not homogeneous: nothing may scale before them.
CURVED = (
    *("tanh", "sigmoid", "gelu", "silu", "elu", "selu", "celu", "softplus", "exp", "expm1", "log"),
    *("log1p", "sin", "cos", "erf", "hardtanh", "hardswish", "hardsigmoid", "mish", "softsign"),
    *("log_sigmoid", "relu6", "softmax", "_softmax", "log_softmax", "_log_softmax", "threshold"),
    *("softmin", "logsumexp", "hardshrink", "softshrink", "_safe_softmax", "sign", "atan"),
    *("cross_entropy_loss", "nll_loss", "nll_loss_nd", "mse_loss", "l1_loss", "smooth_l1_loss"),
    *("binary_cross_entropy_with_logits", "huber_loss", "sinc", "tan", "floor", "round"),
)
MADE = (
    *("ones", "ones_like", "new_ones", "full", "full_like", "new_full", "arange", "empty", "eye"),
    *("empty_like", "new_empty", "scalar_tensor", "rand", "randn", "rand_like", "randn_like"),
    *(
        "linspace",
        "sym_size",
        "tril_indices",
        "triu_indices",
        "bernoulli",
        "randint",
        "_assert_tensor_metadata",
    ),
)
COMPARED = ("gt", "lt", "ge", "le", "eq", "ne", "isnan", "isinf", "logical_not", "bitwise_not")
POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}
