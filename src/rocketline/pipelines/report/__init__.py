"""`report`: one HTML page, with its plots inside, that tells what a pipeline did.

`write` gathers it from the progress log of the runs and from the tables, `figures` works out what is shown, `svg` draws
a plot, `page` makes the HTML. It reads, and changes nothing; what is proved is proved by `proof`. Imported by `cli`.
"""
