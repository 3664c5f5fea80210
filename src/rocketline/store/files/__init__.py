"""Files that are no messages: streams cut into files of one size (`segments`), the checkpoint, JSON tables and their
journals. Knows nothing of records, queues or keys; imports `filesystem` only.
"""
