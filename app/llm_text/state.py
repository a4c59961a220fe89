"""State of the cleaner between two tokens: the mode, and what is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.llm_text.output import Output


@dataclass(slots=True)
class State:
    """State between two tokens. `announcement` is said in place of fenced code."""

    out: Output
    announcement: str
    context: str = "line"
    """Name of the mode, or "text" for the one of the open marks."""
    line: Literal["", "heading", "row"] = ""
    """Kind of line, if a blank line is due after it."""
    code: int = 0
    """Count of the backticks that opened code; 0 outside code."""
    math: Literal["", "inline", "display"] = ""
    depth: int = 0
    """Count of the open parentheses of an address."""
    fence: str = ""
    """Mark of the open fence, as "```"."""

    @property
    def mode(self) -> str:
        """Name of the mode that reads the next token."""
        if self.context != "text":
            return self.context
        return "code" if self.code else "math" if self.math else "text"

    def end_paragraph(self) -> None:
        """Forget the marks that are open."""
        self.code, self.math = 0, ""

    def break_block(self, at: int) -> None:
        """End the paragraph, and have a blank line before the text from character `at` on."""
        self.end_paragraph()
        self.out.break_block(at)

    def end_line(self, at: int) -> None:
        """End the line at a newline, which is character `at`."""
        self.out.newline(at)
        if self.line:
            self.line = ""
            self.out.break_block(at + 1)
        if self.math == "inline":
            self.math = ""
        self.context = "line"
