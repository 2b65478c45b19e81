# What a type checker sees of the lazy face in __init__.py; a test keeps the two equal.

from ._advice import Advice as Advice
from ._balance import balance as balance
from ._csv_log import CsvLog as CsvLog
from ._curvature import Sharpness as Sharpness
from ._curvature import Trace as Trace
from ._curvature import hessian_trace as hessian_trace
from ._curvature import sharpness as sharpness
from ._declare import check as check
from ._declare import declare as declare
from ._equilibrate import equilibrate as equilibrate
from ._family import Family as Family
from ._family import Part as Part
from ._huggingface import trainer_callback as trainer_callback
from ._inspect import Inspection as Inspection
from ._inspect import inspect as inspect
from ._jump import Jump as Jump
from ._laws import ChargeLaw as ChargeLaw
from ._laws import step_law as step_law
from ._lightning import lightning_callback as lightning_callback
from ._monitor import Monitor as Monitor
from ._noise import Noise as Noise
from ._noise import gradient_noise as gradient_noise
from ._probe import check_repeatable as check_repeatable
from ._symmetries import Symmetries as Symmetries
from ._symmetries import symmetries as symmetries
