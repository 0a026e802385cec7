"""What every command shares: how arguments are parsed, what signals do, streams that may be closed."""
