"""Trees that print themselves as SQL and know simpler versions of themselves.

A class says in three lists what may be left out of it: ``optional`` fields become None, ``flags`` become False, and
``lists`` lose one element as long as the given number stays. ``simpler`` adds what only the class knows, such as
putting an argument in the place of its call. Every candidate of ``smaller`` has a smaller ``size``, so shrinking ends;
whether it still is SQL with a meaning is for Spark to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar


@dataclass(frozen=True)
class Node:
    optional: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()
    lists: ClassVar[Mapping[str, int]] = {}

    def text(self) -> str:
        raise NotImplementedError

    def simpler(self) -> Iterator[Node]:
        return iter(())

    def weight(self) -> int:
        return 1 + sum(bool(getattr(self, name)) for name in self.flags)

    def children(self) -> Iterator[Node]:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Node):
                yield value
            elif isinstance(value, tuple):
                yield from (one for one in value if isinstance(one, Node))

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children():
            yield from child.walk()

    def size(self) -> int:
        return sum(node.weight() for node in self.walk())

    def smaller(self) -> Iterator[Any]:
        """Simpler versions, big steps first."""
        limit = self.size()
        yield from (each for each in self.simpler() if each.size() < limit)
        for each in fields(self):
            for value in self._less(each.name):
                yield replace(self, **{each.name: value})

    def _less(self, name: str) -> Iterator[Any]:
        value = getattr(self, name)
        if name in self.flags and value:
            yield False
        if name in self.optional and value is not None:
            yield None
        if isinstance(value, Node):
            yield from value.smaller()
        elif isinstance(value, tuple):
            for at, one in enumerate(value):
                if len(value) > self.lists.get(name, len(value)):
                    yield value[:at] + value[at + 1 :]
                if isinstance(one, Node):
                    yield from ((*value[:at], less, *value[at + 1 :]) for less in one.smaller())

    def rewritten(self, rule: Callable[[Any], Any]) -> Any:
        """The tree with ``rule`` applied to every node, children first."""
        changes: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Node):
                changes[each.name] = value.rewritten(rule)
            elif isinstance(value, tuple):
                changes[each.name] = tuple(one.rewritten(rule) if isinstance(one, Node) else one for one in value)
        return rule(replace(self, **changes) if changes else self)
