"""∂²Φ[Σ] against values of Φ, and against the equation that it solves."""

import jax
import numpy as np
import pytest
import scipy.integrate

import gradbias as gb
from gradbias.theory import manifold
from theory.manifold.manifold_cases import (
    CASES,
    CURVE,
    MOTOR,
    factor,
    generic_loss,
    in_jax,
    on_manifold,
    relative,
    second_difference,
    tanh_in_jax,
)


def second(name, sigma):
    return manifold.second_derivative(on_manifold(name), sigma, **CASES[name].given)


@pytest.mark.parametrize("name", CASES)
def test_second_differences_of_the_limit(name):
    """The published signs, and half of the mixed part, are visibly wrong."""
    sigma = manifold.Factor(factor(name))
    parts, expected = second(name, sigma), second_difference(name)
    assert relative(parts.total, expected) < 1e-6
    assert parts.rank == CASES[name].rank
    for tangent, mixed in ((-1, -1), (1, -1), (1, 0.5)):
        wrong = tangent * parts.tangent + parts.normal + mixed * parts.mixed
        assert relative(wrong, expected) > 0.02
    half = manifold.drift(on_manifold(name), sigma, **CASES[name].given)
    np.testing.assert_allclose(2 * half, parts.total, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name, loss", [("tanh net", None), ("generic", generic_loss)])
def test_the_second_variational_equation(name, loss):
    """X₂′ = −HX₂ − T[EΣE], E′ = −HE: neither a pseudo-inverse nor a rank is needed."""
    x, F = on_manifold(name), factor(name)
    loss = loss or (lambda v: 0.5 * (tanh_in_jax(v) ** 2).sum())
    H = in_jax(jax.hessian(loss), x)
    T = in_jax(jax.jacfwd(jax.hessian(loss)), x)
    T = T.transpose(2, 0, 1).reshape(x.size, -1)

    def field(t, state):
        E, X2 = state[: F.size].reshape(F.shape), state[F.size :]
        return -np.concatenate([(H @ E).ravel(), H @ X2 + T @ (E @ E.T).ravel()])

    values = np.linalg.eigvalsh(H)
    least = values[values > 1e-6].min()
    start = np.concatenate([F.ravel(), np.zeros(x.size)])
    end = scipy.integrate.solve_ivp(
        field, (0, 32 / least), start, method="DOP853", rtol=1e-12, atol=1e-14, t_eval=[32 / least]
    )
    assert relative(second(name, F).total, end.y[F.size :, 0]) < 1e-10


@pytest.mark.slow
def test_all_forms_of_a_covariance_agree():
    """And the loss alone gives what the residual gives, by another road."""
    x, F = on_manifold("tanh net"), factor("tanh net", 12)
    S = F @ F.T
    expected = manifold.second_derivative(x, S, residual=tanh_in_jax)
    forms = [manifold.Factor(F), lambda v: S @ v]
    found = [manifold.second_derivative(x, s, residual=tanh_in_jax) for s in forms]
    found.append(manifold.second_derivative(x, S, loss=lambda v: 0.5 * (tanh_in_jax(v) ** 2).sum()))
    for parts in found:
        for part in ("tangent", "normal", "mixed"):
            assert relative(getattr(parts, part), getattr(expected, part)) < 1e-10
    P = manifold.tangent_projector(x, residual=tanh_in_jax)
    H = in_jax(jax.hessian(lambda v: 0.5 * (tanh_in_jax(v) ** 2).sum()), x)
    assert np.linalg.norm(P @ H) < 1e-12  # C.1, C.3
    np.testing.assert_allclose(P @ expected.tangent, 0, atol=1e-12)
    np.testing.assert_allclose(P @ expected.normal, expected.normal, atol=1e-12)


def test_contractions_by_hand():
    """C.4 to C.6 with the dense third derivative."""
    x, rng = on_manifold("generic"), np.random.default_rng(0)
    H = in_jax(jax.hessian(generic_loss), x)
    T = in_jax(jax.jacfwd(jax.hessian(generic_loss)), x)
    pinv = np.linalg.pinv(H, rcond=1e-8)
    P = np.eye(5) - pinv @ H
    a, b = rng.standard_normal((2, 5))
    v, u = P @ a, b - P @ b

    def contract(M):
        return np.einsum("kij,ij->k", T, M)

    def both(A):
        S = (A + A.T) / 2
        return manifold.second_derivative(x, S, loss=generic_loss).total

    c4 = -P @ contract(np.outer(v, pinv @ b)) - pinv @ contract(np.outer(v, P @ b))
    assert relative(both(np.outer(v, b)), c4) < 1e-9
    c5 = np.outer(u, u) + pinv @ np.outer(u, u) @ H
    assert relative(both(c5), -P @ contract(pinv @ np.outer(u, u))) < 1e-9
    K = manifold.lyapunov_inverse(H, np.outer(u, u), rtol=1e-8)
    np.testing.assert_allclose(H @ K + K @ H, np.outer(u, u), atol=1e-12)
    assert relative(both(np.outer(u, u)), -P @ contract(K)) < 1e-9
    third = manifold.third_derivative(x, np.outer(a, a), loss=generic_loss)
    assert relative(third, contract(np.outer(a, a))) < 1e-12


def test_the_tangent_part_knows_the_manifold_only():
    """C.7: H⁺T[vvᵀ] is minus the normal part of the acceleration, whatever the loss."""
    angle = 0.7
    x = CURVE.point(angle)
    velocity = np.array([-1.5 * np.sin(angle), np.cos(angle)])
    P = manifold.tangent_projector(x, residual=CURVE.residual)
    expected = -(x - P @ x)  # γ'' = −γ on an ellipse
    for loss in (CURVE.loss, lambda y: (y[0] ** 2 / 2.25 + y[1] ** 2 - 1) ** 2):
        found = manifold.second_derivative(x, velocity[:, None], loss=loss).tangent
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("D, v", [(5, (0.6, 0.8)), (8, (0.0, -2.0))])
def test_the_motor_turns_at_an_eighth(D, v):
    """(D − 2)/8 anti-clockwise at every angle, not (D − 2)/2."""
    motor = MOTOR if D == 5 else gb.problems.Motor(D, v)
    for angle in (0.3, 2.9):
        x = motor.point(angle)
        found = manifold.drift(x, motor.covariance(x), residual=motor.residual)
        turn = np.array([-np.sin(angle), np.cos(angle)])
        np.testing.assert_allclose(found[:2], (D - 2) / 8 * turn, atol=1e-12)
        np.testing.assert_allclose(found[2:], 0, atol=1e-12)
    assert motor.speed == (D - 2) / 8
