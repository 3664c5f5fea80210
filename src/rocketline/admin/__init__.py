"""Administration: one coroutine per operation, results as dataclasses."""
