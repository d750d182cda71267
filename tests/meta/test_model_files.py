"""The page on model files lists what they hold."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "model_file_names.py"


def test_the_page_lists_every_name_and_its_fields():
    script = runpy.run_path(str(SCRIPT))
    text = script["PAGE"].read_text()
    assert script["with_tables"](text) == text, f"run python {SCRIPT.name}"
