"""Related work: the statements here are re-derived, the papers were not read in full."""

from .._source import Source
from ..prelude import Paper

REDERIVED = "not read in full: the statements are derived anew"


def _paper(key: str, authors: str, title: str, venue: str, year: int) -> Paper:
    return Paper(Source(key, authors, title, venue, year, REDERIVED))


SOUDRY = _paper(
    "soudry2018implicit",
    "Daniel Soudry and Elad Hoffer and Mor Shpigel Nacson and Suriya Gunasekar and Nathan Srebro",
    "The Implicit Bias of Gradient Descent on Separable Data",
    "Journal of Machine Learning Research 19",
    2018,
)
STEEPEST = _paper(
    "nacson2019convergence",
    "Mor Shpigel Nacson and Jason D. Lee and Suriya Gunasekar and Pedro H. P. Savarese and "
    "Nathan Srebro and Daniel Soudry",
    "Convergence of Gradient Descent on Separable Data",
    "Proceedings of the 22nd International Conference on Artificial Intelligence and Statistics",
    2019,
)
DEEP = _paper(
    "ji2019deep",
    "Ziwei Ji and Matus Telgarsky",
    "Gradient Descent Aligns the Layers of Deep Linear Networks",
    "International Conference on Learning Representations",
    2019,
)
HOMOGENEOUS = _paper(
    "lyu2020homogeneous",
    "Kaifeng Lyu and Jian Li",
    "Gradient Descent Maximizes the Margin of Homogeneous Neural Networks",
    "International Conference on Learning Representations",
    2020,
)
DIAGONAL = _paper(
    "moroshko2020classification",
    "Edward Moroshko and Blake E. Woodworth and Suriya Gunasekar and Jason D. Lee and "
    "Nathan Srebro and Daniel Soudry",
    "Implicit Bias in Deep Linear Classification: Initialization Scale vs Training Accuracy",
    "Advances in Neural Information Processing Systems 33",
    2020,
)
CALCULUS = _paper(
    "tsilivis2025steepest",
    "Nikolaos Tsilivis and Gal Vardi and Julia Kempe",
    "Flavors of Margin: Implicit Bias of Steepest Descent in Homogeneous Neural Networks",
    "International Conference on Learning Representations",
    2025,
)
