"""Ways to show a result: tables and plots. One file for each."""
