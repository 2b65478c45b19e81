"""Problems: what is fitted; and generators for the data sets of the papers."""

from ._batch import Batch
from ._classification import Classification
from ._manifolds import Curve, Hyperbola, Motor, TanhFit
from ._max_margin import MaxMargin
from ._planted import gaussian, orthogonal, sparse, whitened
from ._population import Population
from ._regression import Regression
from ._samples import Samples
from ._separable import digit_classes, separable
from ._tasks import autoencoding, conflicting, digits, relu_teacher
from ._teachers import gaussian_teacher, relu_directions, sparse_teacher
from .base import Problem, QuadraticProblem

__all__ = [
    "Batch",
    "Classification",
    "Curve",
    "Hyperbola",
    "MaxMargin",
    "Motor",
    "Population",
    "Problem",
    "QuadraticProblem",
    "Regression",
    "Samples",
    "TanhFit",
    "autoencoding",
    "conflicting",
    "digit_classes",
    "digits",
    "gaussian",
    "gaussian_teacher",
    "orthogonal",
    "relu_directions",
    "relu_teacher",
    "separable",
    "sparse",
    "sparse_teacher",
    "whitened",
]
