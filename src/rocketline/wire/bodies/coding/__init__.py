"""How bodies are read and written: readers and writers made from type hints, and large bodies done piece by piece.

`wire.bodies.codec` puts them together; no class of a body is here.
"""
