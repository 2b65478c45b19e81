"""One symmetry family of a model: what it does to which parameters, and its charges."""

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

EXACT = 1e-10  # the largest relative |g·Aθ| of a symmetry that holds, in float64
SINGLE = 1e-4  # the same where the model computes in single precision, whatever it is given


@dataclasses.dataclass(frozen=True, eq=False)
class ParameterPart:
    """Entries of one parameter that a family multiplies by exp(mu·λ of their unit).

    Attributes:
        parameter: its name in `model.named_parameters()`.
        dims: the axes along which the unit varies.
        unit: the unit of every position along `dims`; −1 where there is none.
        mu: the eigenvalue: positive for what goes into a unit, negative for what comes out.
    """

    parameter: str
    dims: tuple[int, ...]
    unit: Tensor
    mu: float
    _where: dict[torch.device, Tensor] = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )

    def where(self, device: torch.device, units: int) -> Tensor:
        """The unit of every position, with `units` for none; kept on each device it is used on."""
        if device not in self._where:  # a copy at every step would wait for the device
            chosen = torch.where(self.unit < 0, units, self.unit)
            self._where[device] = chosen.to(device).reshape(-1)
        return self._where[device]

    def sums(self, values: Tensor, units: int) -> Tensor:
        """(units,) the sum of `values`, shaped like the parameter, over each unit."""
        others = [d for d in range(values.ndim) if d not in self.dims]
        kept = (values.sum(others) if others else values).reshape(-1)
        total = kept.new_zeros(units + 1).index_add(0, self.where(kept.device, units), kept)
        return total[:units]

    def factors(self, like: Tensor, scale: Tensor) -> Tensor:
        """`scale` of each entry's unit, shaped to multiply the parameter; 1 where there is none."""
        padded = torch.cat([scale.to(like), like.new_ones(1)])
        shape = [n if d in self.dims else 1 for d, n in enumerate(like.shape)]
        return padded[self.where(like.device, len(scale))].reshape(shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """Symmetries of one kind and place: all neurons of a layer, all dimensions of a head pair.

    The loss does not change under exp(λA): entries that go into unit u are multiplied by
    exp(μλ_u), those that come out of it by exp(−|μ|λ_u). Convention: charge C = θᵀAθ, noise of
    batches of S at rate lr has κ = lr/S, objective L + γ‖θ‖² (weight decay wd = 2γ of torch's SGD).

    Attributes:
        name: where it is, in plain words, such as "0 -> 2 (relu)".
        kind: "rescaling" (in and out of a unit), "pair" (two linear maps that meet, where any
            invertible matrix can be put between them), "scaling" (what feeds a normalisation) or
            "declared".
        units: how many charges.
        parts: what it acts on.
        holds: the relative |g·Aθ| measured on data; None if it was not checked.
        block: of a pair, how many neighbouring units mix (the size of a head); None if none do.
        epsilon: does an epsilon, as in normalisations, keep it from being exact?
        tolerance: up to which `holds` is rounding.
    """

    name: str
    kind: str
    units: int
    parts: tuple[ParameterPart, ...]
    holds: float | None = None
    block: int | None = None
    epsilon: bool = False
    tolerance: float = EXACT

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters, each once."""
        return tuple(dict.fromkeys(part.parameter for part in self.parts))

    @property
    def exact(self) -> bool:
        """Was it checked, and does it hold up to rounding?"""
        allowed = EXACT if self.epsilon else self.tolerance
        return self.holds is not None and self.holds <= allowed

    @property
    def two_sided(self) -> bool:
        """Does it grow some entries and shrink others? Only then there is a balance."""
        return len({part.mu > 0 for part in self.parts}) == 2

    def halves(self, a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Σ |μ|·a·b over what goes into each unit, and over what comes out of it.

        Args:
            a: tensors shaped like the parameters, by name.
            b: the same.
        """
        first = a[self.parts[0].parameter]
        zero = first.new_zeros(self.units)
        sides = {True: zero, False: zero}
        for part in self.parts:
            product = a[part.parameter] * b[part.parameter]
            side = part.mu > 0
            sides[side] = sides[side] + abs(part.mu) * part.sums(product, self.units)
        return sides[True], sides[False]

    def form(self, a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Tensor:
        """⟨Aa, b⟩ of every unit: in minus out. `form(θ, θ)` is the charge."""
        into, out = self.halves(a, b)
        return into - out

    def charge(self, params: Mapping[str, Tensor]) -> Tensor:
        """C = θᵀAθ of every unit: its imbalance, in minus out."""
        return self.form(params, params)

    def move(self, params: Mapping[str, Tensor], lam: Tensor) -> dict[str, Tensor]:
        """exp(λA)θ: new tensors for this family's parameters, by name.

        Args:
            params: tensors shaped like the parameters; may hold others, which are left out.
            lam: (units,) how far.
        """
        if lam.shape != (self.units,):
            raise ValueError(f"lam must have shape ({self.units},), got {tuple(lam.shape)}")
        moved: dict[str, Tensor] = {}
        for part in self.parts:
            value = moved.get(part.parameter, params[part.parameter])
            moved[part.parameter] = value * part.factors(value, torch.exp(part.mu * lam))
        return moved
