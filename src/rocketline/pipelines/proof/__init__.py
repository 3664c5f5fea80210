"""The proof that every message landed once: what was read, by the checkpoints, against what the tables hold.

`verify` is the command, `compare` the arithmetic over blocks of offsets, `broker_gaps` asks brokers why something is
missing. It reads and changes nothing; a verdict goes out, to `cli`, which alone imports it. What it proves is done in
`runs` and `tables`.
"""
