"""Rows shared out among threads."""

import jax
import jax.numpy as jnp
import pytest

from driftline.infer import threads


@pytest.mark.parametrize(("count", "size"), [(1, 5), (5, 5), (6, 5), (10, 5), (13, 5), (7, None), (1, None)])
def test_parts_have_one_size_and_every_row_is_new_once(count, size):
    parts = threads.parts(count, size)
    assert len({part.rows.stop - part.rows.start for part in parts}) == 1
    new = [row for part in parts for row in range(count)[part.rows][part.known :]]
    assert new == list(range(count))


def test_results_come_in_order_and_threads_work_in_double_precision():
    def last(part):
        return part.rows.stop, jnp.ones(()).dtype

    with jax.enable_x64(False):  # what threads would otherwise find is the setting of the whole program
        jax.config.update("jax_enable_x64", False)
        try:
            found = list(threads.share_out(last, threads.parts(9, 2)))
        finally:
            jax.config.update("jax_enable_x64", True)
    assert found == [(stop, jnp.dtype("float64")) for stop in (2, 4, 6, 8, 9)]


def test_an_error_in_a_thread_is_raised():
    def fail(part):
        if part.known:
            raise ValueError("the last part")

    with pytest.raises(ValueError, match="the last part"):
        list(threads.share_out(fail, threads.parts(5, 2)))
