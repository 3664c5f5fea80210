"""The proof that every message landed once: what was read, by the checkpoints, against what the tables hold.

`verify` is the command, `compare` the arithmetic over blocks of offsets, `broker_gaps` asks brokers why something is
missing.
"""
