"""The paper's method: reparameterised draws, two bidiagonal solves a step, Adam."""
