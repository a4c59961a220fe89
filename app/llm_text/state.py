"""State of the cleaner between two steps: open lines, open marks, and parts that are being skipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.llm_text.addresses import Address
from app.llm_text.output import Output


@dataclass(slots=True)
class Paragraph:
    """Marks that are open inside a paragraph. They are forgotten at its end."""

    code: int = 0
    """Count of the backticks that opened code; 0 outside code."""
    math: Literal["", "inline", "display"] = ""
    angle: bool = False
    """True if an address between angle brackets is open."""
    brackets: list[bool] = field(default_factory=list)
    """For each open square bracket, whether it is a citation."""
    destination: int = 0
    """Depth of the parentheses of a link's destination; 0 outside."""
    destination_length: int = 0
    reference: bool = False
    """True if the label of a reference link is open."""


@dataclass(slots=True)
class State:
    """State between two steps. `announcement` is said in place of fenced code."""

    announcement: str
    previous: str = "\n"
    """Last character of the original."""
    line_start: bool = True
    after_bullet: bool = False
    heading: bool = False
    table: bool = False
    fence: str = ""
    """Mark of the open fence, as "```"; "" outside fenced code."""
    in_code_line: bool = False
    skip_until: str = ""
    """Text that ends a skipped part, in small letters; "" outside."""
    address: Address | None = None
    paragraph: Paragraph = field(default_factory=Paragraph)

    def end_paragraph(self) -> None:
        """Forget the marks that are open."""
        self.paragraph = Paragraph()

    def break_block(self, out: Output, at: int) -> None:
        """End the paragraph, and have a blank line before what follows."""
        self.end_paragraph()
        out.break_block(at)

    def end_line(self, out: Output, at: int) -> int:
        """End the line at a newline, which is character `at`. Return 1, the characters dealt with."""
        out.newline(at)
        if self.heading or self.table:
            self.heading = self.table = False
            out.break_block(at + 1)
        self.line_start = True
        if self.paragraph.math == "inline":
            self.paragraph.math = ""
        return 1
