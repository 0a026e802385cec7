"""The platform that a program is compiled for chooses between the two orders."""

import jax
import numpy as np
import pytest

from driftline.linalg import backend, parallel, sequential

ARGUMENTS = {
    "back_substitute": (np.full(8, 2.0), np.ones(7), np.ones(8)),
    "forward_substitute": (np.full(8, 2.0), np.ones(7), np.ones(8)),
    "pivots": (np.full(8, 3.0), np.ones(7)),
    "pivot_gains": (np.full(8, 3.0), np.ones(7), np.ones(8)),
}


def lowered(function, arguments, platform):
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_program_for_the_cpu_has_the_loop_of_the_sequential_function(name):
    arguments = ARGUMENTS[name]
    loops = lowered(getattr(sequential, name), arguments, "cpu").count("stablehlo.while")
    assert loops == 1
    assert lowered(backend.by_backend(name), arguments, "cpu").count("stablehlo.while") == loops


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_program_for_another_platform_has_no_loop(name, platform):
    arguments = ARGUMENTS[name]
    assert "stablehlo.while" not in lowered(getattr(parallel, name), arguments, platform)
    assert "stablehlo.while" not in lowered(backend.by_backend(name), arguments, platform)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_chosen_function_keeps_its_name_and_its_values(name):
    chosen, arguments = backend.by_backend(name), ARGUMENTS[name]
    assert chosen.__name__ == name
    expected = jax.jit(getattr(sequential, name))(*arguments)
    np.testing.assert_array_equal(jax.jit(chosen)(*arguments), expected)


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_types_that_do_not_go_together_are_refused(name, dtype):
    first, *others = ARGUMENTS[name]
    with pytest.raises(TypeError, match="one floating-point type are needed, got .*astype"):
        backend.by_backend(name)(first.astype(dtype), *others)
