"""One gradient step: its scaling, its price, its distance from the memory limit."""
