"""Related work: the statements here are re-derived, the papers were not read in full."""

from .._source import Source
from ..prelude import Paper

REDERIVED = "not read in full: the statements are derived anew"


def _paper(key: str, authors: str, title: str, venue: str, year: int) -> Paper:
    return Paper(Source(key, authors, title, venue, year, REDERIVED))


MOMENTUM = _paper(
    "marcotte2024momentum",
    "Sibylle Marcotte and Rémi Gribonval and Gabriel Peyré",
    "Keep the Momentum: Conservation Laws beyond Euclidean Gradient Flows",
    "Proceedings of the 41st International Conference on Machine Learning",
    2024,
)
HEAVY_BALL = _paper(
    "ghosh2023heavyball",
    "Avrajit Ghosh and He Lyu and Xitong Zhang and Rongrong Wang",
    "Implicit Regularization in Heavy-Ball Momentum Accelerated Stochastic Gradient Descent",
    "International Conference on Learning Representations",
    2023,
)
ADAMW = _paper(
    "xie2024adamw",
    "Shuo Xie and Zhiyuan Li",
    "Implicit Bias of AdamW: l-infinity Norm Constrained Optimization",
    "Proceedings of the 41st International Conference on Machine Learning",
    2024,
)
GEOMETRY = _paper(
    "gunasekar2018geometry",
    "Suriya Gunasekar and Jason Lee and Daniel Soudry and Nathan Srebro",
    "Characterizing Implicit Bias in Terms of Optimization Geometry",
    "Proceedings of the 35th International Conference on Machine Learning",
    2018,
)
SHARPNESS = _paper(
    "wen2023sam",
    "Kaiyue Wen and Tengyu Ma and Zhiyuan Li",
    "How Does Sharpness-Aware Minimization Minimize Sharpness?",
    "International Conference on Learning Representations",
    2023,
)
ROTATION = _paper(
    "kosson2024rotational",
    "Atli Kosson and Bettina Messmer and Martin Jaggi",
    "Rotational Equilibrium: How Weight Decay Balances Learning Across Neural Networks",
    "Proceedings of the 41st International Conference on Machine Learning",
    2024,
)
