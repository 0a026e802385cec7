"""Models: a Markov prior over paths, a likelihood at each step, and the observations that they meet."""
