"""Messages that come later or again: delay levels, send-backs, dead letters.

`handler` takes CONSUMER_SEND_MSG_BACK, `send_back` says when a message comes again or that it has come often enough;
both leave by `storing.put`. `delay_levels` moves what is due to its real topic (Java: ScheduleMessageService), and
`delay_handler` lets administrators ask how far it is. Timers to any moment are a room of their own, `broker.timers`;
what a consumer does about a handler that failed is in `client.push`. Imported by `routing` and `storage`.
"""
