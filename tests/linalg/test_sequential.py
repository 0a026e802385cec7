"""The loops of `sequential` against dense NumPy, and one chain alone against the same chain among others."""

import jax
import numpy as np
import pytest

from driftline.linalg import sequential
from support import oracles

DIM = 2
lengths = pytest.mark.parametrize("num_steps", [1, 2, 3, 8, 50])
substitutions = pytest.mark.parametrize("name", ["back_substitute", "forward_substitute"])
directions = pytest.mark.parametrize("forward", [False, True], ids=["back", "forward"])


def draw(num_steps):
    rng = np.random.default_rng(num_steps)
    gain = 0.5 * rng.standard_normal((num_steps - 1, DIM, DIM))
    return gain, rng.standard_normal((num_steps, DIM)), rng.standard_normal((num_steps, DIM, DIM))


def recurrence(gain, *, forward):
    """The dense inverse of a unit block bidiagonal matrix, and the bound on its rounding errors."""
    identity = np.broadcast_to(np.eye(DIM), (len(gain) + 1, DIM, DIM))
    matrix = oracles.block_bidiagonal(identity, gain)
    inverse, sums = np.linalg.inv(matrix), oracles.path_sums(matrix)
    return (inverse.T, sums.T) if forward else (inverse, sums)


@lengths
@directions
def test_block_recurrences_solve_the_dense_system(num_steps, forward):
    gain, vectors, _ = draw(num_steps)
    inverse, sums = recurrence(gain, forward=forward)
    kernel = sequential.block_forward_recurrence if forward else sequential.block_back_recurrence
    expected, magnitude = oracles.block_apply(inverse, vectors), oracles.block_apply(sums, np.abs(vectors))
    limit = num_steps * (DIM + 2)  # a product and a sum per step
    oracles.assert_within_rounding(jax.jit(kernel)(gain, vectors), expected, magnitude, roundings=limit)


@lengths
@directions
def test_congruences_are_diagonal_blocks_of_a_dense_product(num_steps, forward):
    gain, _, matrices = draw(num_steps)
    inverse, sums = recurrence(-gain, forward=forward)
    kernel = sequential.forward_congruence if forward else sequential.back_congruence
    middle = oracles.block_tridiagonal(matrices, np.zeros_like(gain))
    expected = oracles.block_band(inverse @ middle @ inverse.T, 0, DIM)
    magnitude = oracles.block_band(sums @ np.abs(middle) @ sums.T, 0, DIM)
    limit = 2 * num_steps * (DIM + 2)
    oracles.assert_within_rounding(jax.jit(kernel)(gain, matrices), expected, magnitude, roundings=limit)


@pytest.mark.parametrize("num_steps", [1, 2, 4, 8, 9, 50])  # a turn takes four rows or eight
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@substitutions
def test_one_chain_is_solved_like_the_same_chain_among_others(name, shape, dtype, num_steps):
    kernel = jax.jit(getattr(sequential, name))
    rng = np.random.default_rng(num_steps)
    diag, upper = oracles.random_factor(rng, num_steps, (2,), dtype)
    rhs = rng.standard_normal((num_steps, 2)).astype(dtype)
    among_others = kernel(diag, upper, rhs)[:, 0]
    alone = kernel(*(band[:, 0].reshape(len(band), *shape) for band in (diag, upper, rhs)))
    rtol = oracles.tolerance(oracles.bidiagonal(diag, upper), dtype)
    assert alone.shape == (num_steps, *shape)
    oracles.assert_close(alone.reshape(-1), among_others, rtol=rtol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@substitutions
def test_the_loop_of_one_chain_is_compiled_as_one_piece(name, dtype):
    arrays = [jax.ShapeDtypeStruct((length,), dtype) for length in (1000, 999, 1000)]
    program = jax.jit(getattr(sequential, name)).lower(*arrays).compile().as_text()
    # So XLA marks loops that it compiles whole. Otherwise every operation of every turn is a call.
    assert program.count(" while(") == program.count('xla_cpu_small_call="true"') == 1


@pytest.mark.parametrize("mapped", [(0, 0, 0), (None, None, 1), (1, None, 0), (None, 0, None)], ids=str)
@substitutions
def test_vmap_solves_every_chain_as_if_it_were_alone(name, mapped):
    num_steps, num_chains = 10, 3
    rng = np.random.default_rng(0)
    bands = (
        *oracles.random_factor(rng, num_steps, (num_chains,)),
        rng.standard_normal((num_steps, num_chains)),
    )

    def chain(i):
        return [band[:, 0 if axis is None else i] for band, axis in zip(bands, mapped, strict=True)]

    kernel = getattr(sequential, name)
    arguments = [
        band[:, 0] if axis is None else np.moveaxis(band, 1, axis)
        for band, axis in zip(bands, mapped, strict=True)
    ]
    together = jax.jit(jax.vmap(kernel, mapped))(*arguments)
    for i in range(num_chains):
        rtol = oracles.tolerance(oracles.bidiagonal(*chain(i)[:2]))
        oracles.assert_close(together[i], jax.jit(kernel)(*chain(i)), rtol=rtol)
