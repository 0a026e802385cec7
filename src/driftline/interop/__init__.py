"""Other libraries' data structures, one file for each library."""
