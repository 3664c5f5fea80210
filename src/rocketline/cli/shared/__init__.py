"""What commands share: connections, arguments, tables and JSON, signals. Imports no command."""
