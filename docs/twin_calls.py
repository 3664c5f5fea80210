"""For MkDocs: shows what the classes of our clients leave to others to say.

`seek = waits(AsyncLitePullConsumer.seek)` is shown as the method that it makes, and a constructor without a text gets
that of the class which it extends.
"""

from __future__ import annotations

from typing import Any, Final

import griffe

_MAKERS: Final = {"waits", "on_loop", "starts", "closes"}
"""Of `rocketline.client.sync.shell`."""


class TwinCalls(griffe.Extension):
    """Looks twins and base classes up, once all modules are read."""

    def on_class(self, *, cls: griffe.Class, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        for name, member in list(cls.members.items()):
            value = member.value if isinstance(member, griffe.Attribute) else None
            if isinstance(value, griffe.ExprCall) and str(value.function) in _MAKERS:
                twin = loader.modules_collection[value.arguments[0].canonical_path]
                cls.set_member(name, _method_like(twin, member))
        made = cls.members.get("__init__")
        if made is not None and made.docstring is None:
            texts = (base.members["__init__"].docstring for base in cls.mro() if "__init__" in base.members)
            made.docstring = next((text for text in texts if text), None)


def _method_like(twin: Any, member: griffe.Object | griffe.Alias) -> griffe.Function:
    return griffe.Function(
        member.name,
        parameters=twin.parameters,
        returns=twin.returns,
        docstring=twin.docstring,
        lineno=member.lineno,
        endlineno=member.endlineno,
    )
