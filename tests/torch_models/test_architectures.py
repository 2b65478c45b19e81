"""Forty architectures: the families that are counted by hand are found, and keep the function.

Not counted, and not found: what moves tied embeddings together with all that feeds them, and
positions that only the first norm of a single block reads.
"""

import copy
from collections import Counter

import pytest

torch = pytest.importorskip("torch")

import gradbias.torch as gbt  # noqa: E402
from gradbias.torch._find.results import outputs  # noqa: E402
from torch_models.architectures import ARCHITECTURES  # noqa: E402

torch.set_num_threads(1)


def built(name, seed=0):
    """In float64, away from zeros and ones, and an input."""
    torch.manual_seed(seed)
    architecture = ARCHITECTURES[name]
    model, example = architecture.make().double(), architecture.example()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    given = example if isinstance(example, tuple) else (example,)
    given = tuple(v.double() if v.is_floating_point() else v for v in given)
    return model, given


def called(model, params, given):
    """Outputs in training, without anything random, by torch alone."""
    twin = copy.deepcopy(model)
    for module in twin.modules():
        module.training = isinstance(module, torch.nn.modules.batchnorm._NormBase)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            result = torch.func.functional_call(twin, params, given)
    finally:
        torch.set_default_dtype(torch.float32)
    return torch.cat([out.flatten() for out in outputs(result)])


def changes(model, families, given, half=False):
    """The largest relative change of any output by a random move along each family."""
    params = {n: p.detach() for n, p in model.named_parameters()}
    first = called(model, params, given)
    result = []
    for family in families:
        lam = 0.5 * torch.randn(family.units, dtype=torch.float64)
        moved = family.move(params, lam)
        if half:  # what goes in alone
            into = {part.parameter for part in family.parts if part.mu > 0}
            moved = {n: v for n, v in moved.items() if n in into}
        off = (called(model, params | moved, given) - first).abs().max()
        result.append(float(off / first.abs().max()))
    return result


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_families_of_an_architecture(name):
    expected = ARCHITECTURES[name]
    model, given = built(name)
    found = gbt.symmetries(model, given)
    assert sum(f.units for f in found) == sum(expected.units), found
    if not expected.in_all:
        assert Counter(f.units for f in found) == Counter(expected.units), found
    assert not found.unknown and not found.rejected, found
    assert all(words in repr(found) for words in expected.named), found
    assert max(changes(model, found, given), default=0.0) <= 1e-10
    # The control: one side alone is no symmetry.
    apart = [f for f in found if f.two_sided and not _on_both_sides(f)]
    assert sum(c < 1e-6 for c in changes(model, apart, given, half=True)) == expected.alone
    # Shapes are enough to find them.
    with torch.device("meta"):  # `.to("meta")` unties what is tied
        shapes = expected.make()
    there = gbt.symmetries(shapes, given)
    assert [(f.name, f.units) for f in there] == [(f.name, f.units) for f in found]


def _on_both_sides(family):
    into, out = (
        {p.parameter for p in family.parts if (p.mu > 0) == side} for side in (True, False)
    )
    return bool(into & out)
