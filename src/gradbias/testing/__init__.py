"""For authors of own nets and noise laws: what is wrong with them, in sentences."""

from ._nets import check_net
from ._noise import check_noise
from ._report import Report

__all__ = ["Report", "check_net", "check_noise"]
