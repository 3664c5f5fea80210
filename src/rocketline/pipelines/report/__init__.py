"""`report`: one HTML page, with its plots inside, that tells what a pipeline did."""
