"""The push consumer: pull loops, handlers, retries. Java: DefaultMQPushConsumerImpl, ConsumeMessageService.

A message comes in by `pull_loop`, is put into its `ProcessQueue` and cut into `consume_request`s, which `handler_pools`
hands to threads or tasks; `concurrent` and `orderly` take in what handlers returned, and `send_back` asks the broker
for another attempt. What is popped comes in by `pop_loop`, and `pop_consumption` acknowledges it. `traced` notes what
happened, `replies` carries what handlers return to those who asked. `core` puts it together and answers what the
runtime asks. Imported by `aio` and `sync`; imports `rebalance`, `pop` and below.
"""
