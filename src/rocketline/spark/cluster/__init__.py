"""What a driver asks a RocketMQ cluster before it plans: which queues there are, where they begin and end.

`cluster` is the way to ask, `queries` what is asked and how answers become a survey, `view` the survey itself.
Questions leave by a client's runtime and by `admin`. What is made of the answers is decided in `planning`; a task asks
nothing here.
"""
