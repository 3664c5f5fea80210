"""Records into columns of Arrow, many at a time: offsets into the bytes found with numpy, no object for a message.

Used by `pulling` and `store_files`; knows nothing of where bytes come from.
"""
