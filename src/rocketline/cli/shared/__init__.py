"""What commands share: connections, arguments, tables and JSON, signals, the log of clients. Imports no command."""
