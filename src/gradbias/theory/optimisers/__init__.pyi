# The one list of public names: `__init__.py` is made from it, and type checkers read it.

from ._adam import noise_floor as noise_floor
from ._adam import noise_rms as noise_rms
from ._adam import signal_share as signal_share
from ._adam import update_bound as update_bound
from ._adam import update_rms as update_rms
from ._balls import DecayBall as DecayBall
from ._balls import decay_ball as decay_ball
from ._balls import frank_wolfe_gap as frank_wolfe_gap
from ._escape import signed_escape as signed_escape
from ._escape import signed_product as signed_product
from ._modified import adam_flow as adam_flow
from ._modified import modified_flow as modified_flow
from ._modified import modified_loss as modified_loss
from ._modified import shifted_start as shifted_start
from ._momentum import charge_sum_rule as charge_sum_rule
from ._momentum import discrete_noether as discrete_noether
from ._momentum import momentum_factor as momentum_factor
from ._muon import MuonPath as MuonPath
from ._muon import learning_times as learning_times
from ._muon import muon_singular_values as muon_singular_values
from ._rotation import Equilibrium as Equilibrium
from ._rotation import rotational_equilibrium as rotational_equilibrium
from ._sam import sam_factor as sam_factor
from ._sam import sam_orbit as sam_orbit
