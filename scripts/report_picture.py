"""Draws the picture of a report for the README: its head, its metrics and its calibration.

    python -m scripts.report_picture

The page is that of a fit to the diabetes data of scikit-learn. Needs chromium.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import cavity

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "report.png"


def page(path: Path) -> None:
    """Writes the report, and leaves out what the picture has no room for."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    cavity.GPRegressor(n_inducing=50, random_state=0).fit(X, y).report(path, X_test, y_test)
    text = path.read_text()
    head, rest = text.split("<h2>The data</h2>")
    shown = rest[rest.index("<h2>Predictions") : rest.index("<h3>Predicted")]
    path.write_text(head + shown + "</main>")


def main() -> None:
    """Takes a picture of the page, and keeps it with few colours."""
    with tempfile.TemporaryDirectory() as folder:
        file, picture = Path(folder, "report.html"), Path(folder, "report.png")
        page(file)
        browser = shutil.which("chromium") or "chromium"
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=900,1345"]
        shot = [browser, *flags, f"--screenshot={picture}", file.as_uri()]
        subprocess.run(shot, check=True, capture_output=True)
        Image.open(picture).convert("RGB").quantize(32).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
