"""The key index: files of 5,000,000 slots by hash. What of a message is indexed is said by `index_keys`, by which hash
by `key_hashes`; `key_index` has all files, `index_file` is one. Filling it is `store.index_builder`, behind the
dispatch.
"""
