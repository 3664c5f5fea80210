"""Popping: messages that a broker hands out without queues, each with a handle to acknowledge it by.

A pop goes out and comes back by `pops`, which `handles` completes with the right to each message (`popped_message`);
`settling` acknowledges, hides for longer, gives back, and puts to the dead letters. What decides when to pop is not
here: that is `simple`, or `push`. Java: the POP calls of MQClientAPIImpl.
"""
