# What a type checker sees of the lazy face in __init__.py; a test keeps the two equal.

from . import dynamics as dynamics
from . import init as init
from . import nets as nets
from . import noise as noise
from . import observe as observe
from . import problems as problems
from . import symmetry as symmetry
from . import testing as testing
from . import theorems as theorems
from . import theory as theory
from ._check import check as check
from ._compare import compare as compare
from ._foretold import sweep as sweep
from ._predict import predict as predict
from ._run import Run as Run
from ._run import load as load
from ._setup import Setup as Setup
from ._setup import Until as Until
from ._simulate import simulate as simulate
from ._verify import verify as verify
from .dynamics import Descent as Descent
from .dynamics import Diffusion as Diffusion
from .dynamics import Flow as Flow
from .nets import MLP as MLP
from .nets import Deep as Deep
from .nets import Diagonal as Diagonal
from .nets import LinearNet as LinearNet
from .nets import Net as Net
from .nets import NormalisedA as NormalisedA
from .nets import NormalisedB as NormalisedB
from .nets import Rank1 as Rank1
from .nets import TwoLayer as TwoLayer
from .noise import Isotropic as Isotropic
from .noise import LabelNoise as LabelNoise
from .noise import Minibatch as Minibatch
from .noise import Replay as Replay
from .numerics.precision import float64 as float64
from .problems import Population as Population
from .problems import Regression as Regression
from .problems import Samples as Samples
from .theorems import Hypothesis as Hypothesis
from .theorems import Theorem as Theorem
from .theorems import cite as cite
from .theorems import register as register

__version__: str
