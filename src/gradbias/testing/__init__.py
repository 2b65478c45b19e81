"""For authors of own nets, noise laws and theorems: what is wrong with them, in sentences."""

from ._nets import check_net
from ._noise import check_noise
from ._random_setups import random_setups
from ._report import Report
from ._theorems import check_theorem

__all__ = ["Report", "check_net", "check_noise", "check_theorem", "random_setups"]
