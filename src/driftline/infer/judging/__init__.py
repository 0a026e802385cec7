"""How good a fit is, and the way from it to the posterior itself."""
