"""Topics read from the files of a store, without a broker: queue units and log files, planned on the driver and scanned
by tasks. Reads what a running broker of ours or Apache's has written, and tells damage and torn ends from the end.
Bytes leave to `decoding`. Mending is `store.inspection`'s. Imported by `sources`.
"""
