"""T3's options side by side: the table is there, and quantizing changes what it says it changes."""

from __future__ import annotations

import json
import sys

from loadtest import t3_options


def test_options_are_compared_with_float32(tmp_path, monkeypatch, capsys):
    found = tmp_path / "rows.json"
    options = ["--layers", "1", "--tokens", "4", "--text", "6", "--rounds", "1", "--only", "weights 8 cache 8"]
    monkeypatch.setattr(sys, "argv", ["t3_options", *options, "--json", str(found)])
    t3_options.main()
    whole, small = json.loads(found.read_text())["rows"]
    assert (whole["option"], small["option"]) == ("float32", "weights 8 cache 8")
    assert whole["KL"] == 0
    assert 0 < small["KL"] < 0.5
    assert all(row["ms/token"] > 0 and row["MiB"] > 0 for row in (whole, small))
    assert "weights 8 cache 8" in capsys.readouterr().out
