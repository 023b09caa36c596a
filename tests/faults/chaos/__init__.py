"""Chaos: everything happens at once, and afterwards everything that was acknowledged is there. See `__main__`."""
