"""The rotation that two sets of vectors share."""

import numpy as np

UNKNOWN = 1e-10  # of the largest singular value: below it, no word says anything of a direction


def common_rotation(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The rotation R, (d, d), with R first_i closest to second_i, over all words (orthogonal Procrustes).

    For vectors of fits that are not joint: each step has a rotation of its own then. Directions of which no
    word says anything, as if there are fewer words than dimensions, are turned as little as can be.

    Args:
        first: Vectors of all words at one step, (n, d).
        second: The same at the other step.
        weights: How much each word counts, (n,).
    """
    # In double precision, which tells a weak direction from one that is not there.
    first, second, weights = (np.asarray(array, np.float64) for array in (first, second, weights))
    left, sizes, right = np.linalg.svd((second * weights[:, None]).T @ first)
    free = sizes <= UNKNOWN * sizes[0]
    turn, _, back = np.linalg.svd(left[:, free].T @ right[free].T)
    left[:, free] = left[:, free] @ turn @ back
    return left @ right
