"""Expressions that say in a page what it has come to."""

from __future__ import annotations

READY = "document.querySelectorAll('#voice input').length > 2"
DONE = "!document.querySelector('#download').disabled"
SILENT = "document.querySelector('#stop').disabled"
# Each page, and when it is ready.
PAGES = {
    "/": READY,
    "/transcribe": "document.querySelectorAll('#recognizer option').length > 0",
    "/interpret": "document.querySelectorAll('#target option').length > 4",
    "/talk": "document.querySelectorAll('#voice option').length > 2",
    "/dashboard": "document.querySelectorAll('#figures div').length > 4",
    "/docs": "document.querySelectorAll('.operation').length > 8",
}
