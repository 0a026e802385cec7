"""O(T) linear algebra on (block) bidiagonal and tridiagonal matrices; knows nothing of probability."""
