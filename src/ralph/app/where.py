"""`ralph where`: where a learning belongs.

A verb like any other, so that the command, the tools and the web call one function.
"""

from ralph.context.where import Answer, Topic, answer

TOPICS = tuple(topic.value for topic in Topic)
"""The words that one may ask about."""


def where(topic: str | None = None) -> tuple[Answer, ...]:
    """The answer for one topic, or for every one in the order in which to ask; UsageError names the topics."""
    return (answer(topic),) if topic is not None else tuple(answer(each) for each in Topic)
