"""What users can set, read and checked: of the source and the sink, of the store folders, and of the clients behind
them. `table` lists all for the documentation. Imports nothing else of `spark` but how queues are written.
"""
