import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from driftline.infer.bbvi import adam


@pytest.mark.parametrize("floor", [adam.FLOOR, 0.1])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_directions_are_those_of_optax(dtype, floor):
    theirs = optax.scale_by_adam(b1=adam.FIRST_DECAY, b2=adam.SECOND_DECAY, eps=floor)
    parameters = {"a": jnp.zeros(5, dtype), "b": jnp.zeros((2, 3), dtype)}
    state, their_state = adam.begin(parameters), theirs.init(parameters)
    rng = np.random.default_rng(0)
    for _ in range(300):
        gradient = jax.tree.map(
            lambda leaf: jnp.asarray(rng.normal(1.0, 2.0, leaf.shape), leaf.dtype), parameters
        )
        found, state = adam.direction(gradient, state, floor=floor)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
            expected, their_state = theirs.update(gradient, their_state)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert one.dtype == dtype
            np.testing.assert_allclose(one, other, rtol=1e3 * jnp.finfo(dtype).eps)


def test_a_gradient_of_zero_gives_no_step():
    found, _ = adam.direction(jnp.zeros(3), adam.begin(jnp.zeros(3)))
    np.testing.assert_array_equal(found, 0.0)
