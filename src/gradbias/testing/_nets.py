"""Is an own net what the library takes it for?"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from .._generators.symmetry import Symmetry
from ..nets import ChainNet, LinearNet, Net
from ..nets.base import as_matrix, product
from ..numerics import checks
from ..numerics.host_rng import generator
from ..numerics.precision import host
from ..numerics.types import PyTree
from ..problems import Problem, Regression
from ..symmetry import check_all
from ..symmetry._check import HOLDS
from ._net_gradients import check_gradient, check_influence
from ._net_outputs import SAME, is_repeatable, outputs_of, predictor_shape, some_inputs
from ._net_parameters import as_float64, declared
from ._net_tracing import any_promotion, check_fields, refuse_class, relative
from ._report import Notes, Report, said

LAMBDA = 0.3  # how far a symmetry moves the parameters


@host
def check_net(
    net: Net,
    params: PyTree,
    problem: Problem | None = None,
    raise_on_error: bool = True,
    key: int = 0,
) -> Report:
    """Find what is wrong with an own net: one line in its author's tests.

    Looks at fields and declared shapes; whether the net can be compiled, in double precision; the
    shapes of predictor and outputs, row by row and the same each time; a linear net's outputs
    against its predictor; the gradient against finite differences; parameters without influence;
    and the symmetries it names, sample by sample.

    Args:
        net: what is checked.
        params: a point to check it at, away from zeros and from symmetric starts, which hide
            much; `gb.init.gaussian(net)` will do.
        problem: what it is to fit; random data if None.
        raise_on_error: raise a ValueError that lists all findings, if there are any.
        key: an integer; decides random data and directions.
    """
    refuse_class("net", net, Net)
    if problem is not None:
        refuse_class("problem", problem, Problem)
    notes = Notes(net)
    with any_promotion():
        _look(notes, net, params, problem, checks.integer("key", key))
    return notes.close(raise_on_error)


def _look(notes: Notes, net: Net, params: PyTree, problem: Problem | None, key: int) -> None:
    notes.begin("fields")
    check_fields(notes, net)
    notes.begin("parameters")
    params = as_float64(notes, params)
    if params is None or not declared(notes, net, params):
        return
    theta = None
    if isinstance(net, LinearNet):
        notes.begin("predictor")
        theta = predictor_shape(notes, net, params, problem)
        if theta is None:
            return
    X = some_inputs(net, theta, problem, key)
    notes.begin("outputs")
    k = outputs_of(notes, net, params, X, None if problem is None else problem.k)
    if k is None or not is_repeatable(notes, net, params, X):
        return
    if problem is None:
        labels = generator(key, "check_net labels").standard_normal((len(X), k))
        problem = Regression.half_mean(X, labels)
    if isinstance(net, LinearNet) and not _linear(notes, net, params, X):
        return
    notes.begin("gradient")
    check_gradient(notes, net, params, problem, key)
    check_influence(notes, net, params, X, key)
    notes.begin("symmetries")
    _symmetries(notes, net, params, problem, X, key)


def _linear(notes: Notes, net: LinearNet, params: PyTree, X: np.ndarray) -> bool:
    """Outputs against the predictor, and the predictor against its factors."""
    theta = np.asarray(as_matrix(net.predictor(jax.tree.map(jnp.asarray, params))))
    outputs = np.asarray(net(params, jnp.asarray(X))).reshape(len(X), -1)
    apart = relative(X @ theta, outputs)
    if apart > SAME:
        notes.find(f"__call__ must return X @ predictor, but is {apart:.2g} of its size away")
        return False
    return _chain(notes, net, params, theta) if isinstance(net, ChainNet) else True


def _chain(notes: Notes, net: ChainNet, params: PyTree, theta: np.ndarray) -> bool:
    factors = [np.asarray(factor) for factor in net.factors(params)]
    shapes = [factor.shape for factor in factors]
    need = list(zip(net.chain[:-1], net.chain[1:], strict=True))
    if shapes != need:
        notes.find(f"factors must have the shapes {need} that `chain` says, got {shapes}")
        return False
    if relative(np.asarray(product(factors)), theta) > SAME:
        notes.find("the product of `factors` is not the predictor")
        return False
    back = net.from_factors(net.factors(params))
    same = jax.tree.structure(back) == jax.tree.structure(params) and all(
        jax.tree.leaves(jax.tree.map(lambda a, b: relative(a, b) <= SAME, back, params))
    )
    if not same:
        notes.find("from_factors(factors(params)) must be params again")
    return same


def _symmetries(
    notes: Notes, net: Net, params: PyTree, problem: Problem, X: np.ndarray, key: int
) -> None:
    try:
        claimed = net.symmetries()
    except Exception as error:  # whatever the user's code raises is a finding
        notes.find(f"symmetries fails: {said(error)}")
        return
    if not isinstance(claimed, Mapping) or not all(isinstance(n, str) for n in claimed):
        notes.find(f"symmetries must return a dict by name, got {claimed!r:.80}")
        return
    for name, symmetry in claimed.items():
        call = f"symmetries()[{name!r}]"
        if not isinstance(symmetry, Symmetry):
            notes.find(f"{call} must be made by gradbias.symmetry, got {symmetry!r:.80}")
            continue
        try:
            cosine = check_all(problem, net, params, {name: symmetry}, key)[name]
            moved = symmetry.move(params, LAMBDA)
        except Exception as error:  # a part that the net does not have, or code of the user's own
            notes.find(f"{call} does not fit the parameters: {said(error)}")
            continue
        if not cosine <= HOLDS:
            notes.find(
                f"{call} does not hold: the gradient of some sample has a cosine of {cosine:.2g} "
                "with Aθ, and needs one of 0"
            )
        elif relative(net(moved, jnp.asarray(X)), net(params, jnp.asarray(X))) > HOLDS:
            notes.find(f"{call}.move({LAMBDA}) changes the outputs, and must not")
