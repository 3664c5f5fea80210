"""Values that every layer speaks of. They hold data and know nothing of bytes, files or sockets."""
