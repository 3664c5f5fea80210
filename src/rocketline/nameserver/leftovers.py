"""What is to be done to many topics of a broker name, and is not done yet: it counts at once, and is done in steps."""

from __future__ import annotations

from collections.abc import Iterator


class Leftovers:
    """Topics by broker name. Whoever looks at a topic asks `has` whether it is one of them."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._topics)

    def add(self, name: str, topics: dict[str, None]) -> None:
        """Takes the dict over."""
        if name in self._topics:
            self._topics[name].update(topics)
        elif topics:
            self._topics[name] = topics

    def has(self, name: str, topic: str) -> bool:
        return name in self._topics and topic in self._topics[name]

    def done(self, name: str, topic: str) -> bool:
        """It is one no more; whether it was."""
        if not self.has(name, topic):
            return False
        del self._topics[name][topic]
        if not self._topics[name]:
            del self._topics[name]
        return True

    def forget(self, name: str) -> None:
        self._topics.pop(name, None)

    def take(self, count: int) -> Iterator[tuple[str, str]]:
        """Give up to so many of them, with their broker names, and forget them."""
        while count and self._topics:
            name, topics = next(iter(self._topics.items()))
            topic, _ = topics.popitem()
            if not topics:
                del self._topics[name]
            count -= 1
            yield name, topic
