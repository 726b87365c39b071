"""docs/images/report.png: the report of the demo, in the browser that the tests use.

Run `make demo browser` first, then: python lab/tools/report_figure.py
"""

from __future__ import annotations

import sys

from project_files import IMAGES, ROOT

sys.path.insert(0, str(ROOT / "tests" / "viz"))

import chromium

found = chromium.find()
if found is None:
    sys.exit("there is no Chromium: run make browser")
browser = chromium.Browser(found)
try:
    browser.open(ROOT / "demo-out" / "report.html", height=1450)
    browser.move("#shares .nsewdrag", 0.42, 0.4)
    browser.wait("document.querySelectorAll('#shares .hoverlayer .legend text').length > 0")
    browser.screenshot(IMAGES / "report.png", whole=False)
finally:
    browser.close()
