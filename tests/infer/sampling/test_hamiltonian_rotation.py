"""Hamiltonian steps that are exact for a standard normal: laws of the step, on densities that are not."""

import functools

import blackjax.mcmc.integrators
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.infer.sampling.hamiltonian_rotation import rotated, rotating

State = blackjax.mcmc.integrators.IntegratorState
X, P = jnp.array([0.3, -1.2, 0.8]), jnp.array([0.5, 0.9, -1.4])


def normal(x):
    return -0.5 * jnp.sum(x**2)


def bent(x):
    """A standard normal times something skewed that couples all three coordinates."""
    return normal(x) - 0.2 * jnp.exp(x[0] + 0.5 * x[1]) - 0.1 * x[2] ** 4 - 0.3 * jnp.sin(x[1] * x[2])


def state_at(log_density, position, momentum):
    return State(position, momentum, *jax.value_and_grad(log_density)(position))


@functools.cache
def compiled(log_density):
    return jax.jit(rotating(log_density))


def steps(log_density, position, momentum, angle, count=1):
    step, state = compiled(log_density), state_at(log_density, position, momentum)
    for _ in range(count):
        state = step(state, angle)
    return state


def energy(state):
    return 0.5 * jnp.sum(state.momentum**2) - state.logdensity


@pytest.mark.parametrize("log_density", [normal, bent])
@pytest.mark.parametrize("angle", [0.01, 0.3, 0.7])
def test_going_back_with_the_momentum_turned_round_ends_where_it_began(log_density, angle):
    there = steps(log_density, X, P, angle, 5)
    back = steps(log_density, there.position, -there.momentum, angle, 5)
    np.testing.assert_allclose(back.position, X, rtol=1e-12)
    np.testing.assert_allclose(back.momentum, -P, rtol=1e-12)


@pytest.mark.parametrize("angle", [0.01, 0.3, 0.7])
def test_a_step_of_negative_angle_undoes_one(angle):
    step, start = rotating(bent), state_at(bent, X, P)
    for found, expected in zip(step(step(start, angle), -angle), start, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("angle", [0.1, 0.7])
@pytest.mark.parametrize("count", [1, 4])
def test_volume_is_preserved(angle, count):
    def flow(both):
        end = steps(bent, both[:3], both[3:], angle, count)
        return jnp.concatenate([end.position, end.momentum])

    jacobian = np.asarray(jax.jacfwd(flow)(jnp.concatenate([X, P])))
    np.testing.assert_allclose(np.linalg.det(jacobian), 1.0, rtol=1e-11)
    # More than that, it is symplectic, which a map that only keeps volume is not.
    form = np.block([[np.zeros((3, 3)), np.eye(3)], [-np.eye(3), np.zeros((3, 3))]])
    np.testing.assert_allclose(jacobian.T @ form @ jacobian, form, atol=1e-11)


@pytest.mark.parametrize("angle", [0.3, 2.0])
def test_a_standard_normal_is_followed_without_error(angle):
    end = steps(normal, X, P, angle, 7)
    np.testing.assert_allclose(end.position, np.cos(7 * angle) * X + np.sin(7 * angle) * P, rtol=1e-12)
    np.testing.assert_allclose(end.momentum, np.cos(7 * angle) * P - np.sin(7 * angle) * X, rtol=1e-12)
    np.testing.assert_allclose(energy(end), energy(state_at(normal, X, P)), rtol=1e-12)


def test_the_error_of_the_energy_falls_with_the_square_of_the_angle():
    begun, time = energy(state_at(bent, X, P)), 1.6
    counts = np.array([8, 16, 32, 64])
    errors = np.array([abs(energy(steps(bent, X, P, time / count, int(count))) - begun) for count in counts])
    assert errors.min() > 1e-8  # far above rounding
    order = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert abs(order - 2) < 0.1


def test_the_trajectory_is_that_of_hamiltons_equations():
    from scipy.integrate import solve_ivp

    gradient = jax.jit(jax.grad(bent))

    def flow(_, both):
        return np.concatenate([both[3:], np.asarray(gradient(jnp.asarray(both[:3])))])

    exact = solve_ivp(flow, (0.0, 1.0), np.concatenate([X, P]), rtol=1e-6, atol=1e-8).y[:, -1]
    end = steps(bent, X, P, 0.01, 100)
    np.testing.assert_allclose(np.concatenate([end.position, end.momentum]), exact, atol=3e-4)


def test_positions_may_be_trees():
    tree = {"a": X[:1], "b": (X[1:],)}
    momentum = {"a": P[:1], "b": (P[1:],)}

    def log_density(tree):
        return bent(jnp.concatenate([tree["a"], tree["b"][0]]))

    end, plain = steps(log_density, tree, momentum, 0.4, 3), steps(bent, X, P, 0.4, 3)
    np.testing.assert_allclose(end.position["a"], plain.position[:1])
    np.testing.assert_allclose(end.position["b"][0], plain.position[1:])
    np.testing.assert_allclose(end.logdensity, plain.logdensity)


def test_a_quarter_of_a_turn_swaps_position_and_momentum():
    position, momentum = rotated(X, P, 0.5 * np.pi)
    np.testing.assert_allclose(position, P, rtol=1e-12)
    np.testing.assert_allclose(momentum, -X, rtol=1e-12)
