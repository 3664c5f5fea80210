"""Messages that come later or again: delay levels, send-backs, dead letters.

`handler` takes CONSUMER_SEND_MSG_BACK, `send_back` says when a message comes again or that it has come often enough,
`delay_levels` moves what is due to its real topic (Java: ScheduleMessageService). Timers to any moment are a room
of their own, `broker.timers`.
"""
