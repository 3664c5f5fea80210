"""What a broker answers: one module per family of requests, each with a table by code."""
