# The one list of public names: `__init__.py` is made from it, and type checkers read it.

from ._find.declare import check as check
from ._find.declare import declare as declare
from ._find.family import Family as Family
from ._find.family import ParameterPart as ParameterPart
from ._find.symmetries import Symmetries as Symmetries
from ._find.symmetries import symmetries as symmetries
from ._inspect.advice import Advice as Advice
from ._inspect.inspect import Inspection as Inspection
from ._inspect.inspect import inspect as inspect
from ._measure.curvature import TopEigenpair as TopEigenpair
from ._measure.curvature import Trace as Trace
from ._measure.curvature import hessian_trace as hessian_trace
from ._measure.curvature import sharpness as sharpness
from ._measure.noise import GradientNoise as GradientNoise
from ._measure.noise import gradient_noise as gradient_noise
from ._measure.repeatable import check_repeatable as check_repeatable
from ._monitor.charge_law import ChargeLaw as ChargeLaw
from ._monitor.charge_law import step_law as step_law
from ._monitor.csv_log import CsvLog as CsvLog
from ._monitor.huggingface import trainer_callback as trainer_callback
from ._monitor.lightning import lightning_callback as lightning_callback
from ._monitor.monitor import Monitor as Monitor
from ._move.balance import balance as balance
from ._move.equilibrate import equilibrate as equilibrate
from ._move.jump import ModelJump as ModelJump
