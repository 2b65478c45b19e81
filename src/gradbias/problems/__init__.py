"""Problems: what is fitted; and generators for the data sets of the papers."""

from ._base import Problem, QuadraticProblem
from ._batch import Batch
from ._population import Population
from ._regression import Regression
from ._samples import Samples

__all__ = ["Batch", "Population", "Problem", "QuadraticProblem", "Regression", "Samples"]
