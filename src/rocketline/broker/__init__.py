"""The broker: takes messages, keeps them, and hands them to consumers. Pure tables, small handlers, one server."""
