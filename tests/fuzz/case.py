"""A case: the tables' rows, views, and rounds of commits with a refresh after each. It runs, fails and shrinks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tests.fuzz.histories import Contents, Rounds
from tests.fuzz.nodes import Node
from tests.fuzz.queries import Table, View, inlined, uses


@dataclass(frozen=True)
class Case:
    contents: tuple[Contents, ...]
    views: tuple[View, ...]
    """In the order of their making: a view may stand on those before it."""
    rounds: Rounds

    def size(self) -> int:
        commits = sum(1 + sum(commit.size() for commit in each) for each in self.rounds)
        return commits + sum(each.size() for each in self.views) + sum(each.size() for each in self.contents)

    def only(self, name: str) -> Case:
        """The case with one view, and what it stands on."""
        needed = {name}
        for view in reversed(self.views):
            if view.name in needed:
                needed |= {each.name for each in view.walk() if isinstance(each, Table)}
        return replace(self, views=tuple(view for view in self.views if view.name in needed))

    def tables(self) -> set[str]:
        """The base tables that the views name."""
        named = {each.name for view in self.views for each in view.walk() if isinstance(each, Table)}
        return named & {each.table for each in self.contents}

    def only_used(self) -> Case:
        """Without the tables that no view names, and their commits."""
        used = self.tables()
        return replace(
            self,
            contents=tuple(each for each in self.contents if each.table in used),
            rounds=_rounds(tuple(one for one in each if one.table in used) for each in self.rounds),
        )

    def text_of(self, name: str) -> str:
        """The view's text, with the texts of the views that it stands on."""
        *below, last = self.only(name).views
        ctes = ", ".join(f"{view.name} AS ({view.text()})" for view in below)
        return f"WITH {ctes} SELECT * FROM ({last.text()})" if ctes else last.text()

    def with_names(self, names: Mapping[str, str]) -> Case:
        """The same views under other names."""

        def rule(node: Node) -> Node:
            return replace(node, name=names.get(node.name, node.name)) if isinstance(node, Table | View) else node

        return replace(self, views=tuple(view.rewritten(rule) for view in self.views))

    # ------------------------------------------------------------------ smaller cases

    def smaller_views(self) -> Iterator[Case]:
        """The same history under simpler views."""
        *below, last = self.views
        for at, view in enumerate(below):
            rest = (*below[:at], *below[at + 1 :], last)
            users = [each for each in rest if uses(each, view.name)]
            if not users:
                yield replace(self, views=rest)
            elif len(users) == 1 and len(uses(users[0], view.name)) == 1:
                user = replace(users[0], query=inlined(users[0].query, view.name, view.query))
                yield replace(self, views=tuple(user if each is users[0] else each for each in rest))
        for at, view in enumerate(self.views):
            for less in view.smaller():
                yield replace(self, views=(*self.views[:at], less, *self.views[at + 1 :]))

    def smaller_histories(self) -> Iterator[Case]:
        """The same views over a shorter history: without rounds, commits, rows."""
        if len(self.tables()) < len(self.contents):
            yield self.only_used()
        for at in range(len(self.rounds)):
            yield replace(self, rounds=self.rounds[:at] + self.rounds[at + 1 :])
        for at in range(len(self.rounds) - 1):
            joined = (self.rounds[at] + self.rounds[at + 1],)
            yield replace(self, rounds=self.rounds[:at] + joined + self.rounds[at + 2 :])
        for at, commits in enumerate(self.rounds):
            for place, commit in enumerate(commits):
                others = [(), *((less,) for less in commit.smaller())]
                for less in others:
                    changed = (*commits[:place], *less, *commits[place + 1 :])
                    yield replace(self, rounds=_rounds((*self.rounds[:at], changed, *self.rounds[at + 1 :])))
        for at, contents in enumerate(self.contents):
            for fewer in contents.smaller():
                yield replace(self, contents=(*self.contents[:at], fewer, *self.contents[at + 1 :]))


def _rounds(found: Iterator[tuple[object, ...]] | tuple[tuple[object, ...], ...]) -> Rounds:
    return tuple(each for each in found if each)  # type: ignore[misc]
