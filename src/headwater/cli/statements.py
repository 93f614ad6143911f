"""Several statements in one text, taken apart at the semicolons that stand outside quotes and comments."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from headwater.sql.dialect import tokens


def split(text: str) -> list[str]:
    """The statements; each keeps its line in the text, so that errors tell the right one."""
    found = []
    start, used = 0, False
    for token in tokens(text):
        if token.token_type is TokenType.SEMICOLON:
            if used:
                found.append(_from_its_line(text, start, token.start))
            start, used = token.end + 1, False
        else:
            used = True
    if used:
        found.append(_from_its_line(text, start, len(text)))
    return found


def _from_its_line(text: str, start: int, end: int) -> str:
    before = text[:start]
    return "\n" * before.count("\n") + " " * (start - (before.rfind("\n") + 1)) + text[start:end]
