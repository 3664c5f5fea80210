"""Records into columns of Arrow, many at a time: offsets into the bytes found with numpy, no object for a message.

Bytes come in as brokers and log files have them, arrays go out. Used by `pulling` and `store_files`; knows nothing of
where bytes come from. One message at a time is read by `client.received_message` and `wire.message_codec`.
"""
