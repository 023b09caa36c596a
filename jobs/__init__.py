"""
The movers: each file moves whole threads between the tiers, one verb per file.

Plain async functions of the tiers. Each is bounded in time, safe to repeat and safe to kill at any line; what one
leaves, the next sweep finds. They see rows, never the objects in them.
"""
