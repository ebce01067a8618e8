"""Look at the built pages in a real browser: widths of a desk and of a phone, light and dark.

    pip install playwright  # and Chromium: apt install chromium, or playwright install chromium
    python doc/screenshots.py doc/_build /tmp/shots [--pages index.html api.html ...]

Writes ``PAGE-WIDTH-SCHEME.png``, and prints the pages that are wider than the window, with the
elements that stick out, and the code blocks that are cut. Not a part of CI.
"""

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

PAGES = [
    "index.html", "guide/index.html", "text.html", "graphs.html", "map_inference.html", "api.html",
    "migration.html", "references.html", "changelog.html", "auto_examples/index.html",
    "auto_examples/plot_digit_strings.html", "generated/skstruct.SAGCRF.html",
    "generated/skstruct.map_inference.solve_map.html",
    "generated/skstruct.datasets.load_conll.html",
]  # fmt: skip

# The page, and the article, which the theme lets scroll by itself. Code and tables may scroll.
OVERFLOW = """() => Math.max(...[
  document.documentElement,
  ...document.querySelectorAll(".bd-article-container"),
].map((e) => e.scrollWidth - e.clientWidth))"""
STICKS_OUT = """() => {
  const box = document.querySelector(".bd-article-container") || document.documentElement;
  const wide = box.getBoundingClientRect().right;
  const scrolls = (e) => e && e !== box && e !== document.body && (
    ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement)
  );
  return [...box.querySelectorAll("*")]
    .filter((e) => e.getBoundingClientRect().right > wide + 1 && !scrolls(e.parentElement))
    .slice(0, 5)
    .map((e) => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`);
}"""
CUT = """() => [...document.querySelectorAll("main pre")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).length"""


def shoot(browser, build, folder, pages, width, scheme, full):
    """Take all pages once; the number of those that scroll sideways."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page, wide = context.new_page(), 0
    for name in pages:
        page.goto((build / name).resolve().as_uri())
        page.wait_for_timeout(200)
        stem = name.removesuffix(".html").replace("/", "-")
        page.screenshot(path=folder / f"{stem}-{width}-{scheme}.png", full_page=full)
        over, cut = page.evaluate(OVERFLOW), page.evaluate(CUT)
        if over > 0:
            wide += 1
            print(f"{name} at {width}, {scheme}: {over} px too wide", page.evaluate(STICKS_OUT))
        if cut and scheme == "light":
            print(f"{name} at {width}: {cut} code blocks are wider than the page and scroll")
    context.close()
    return wide


def main():
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", nargs="*", help="all pages of the build: --pages all")
    parser.add_argument("--full", action="store_true", help="whole pages, not a screen of each")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    pages = args.pages or [name for name in PAGES if (args.build / name).is_file()]
    if pages == ["all"]:
        pages = sorted(str(path.relative_to(args.build)) for path in args.build.rglob("*.html"))
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        wide = sum(
            shoot(browser, args.build, args.folder, pages, width, scheme, args.full)
            for width in (1280, 390)
            for scheme in ("light", "dark")
        )
        browser.close()
    print(f"{len(pages)} pages, 4 pictures each, {wide} scroll sideways")


if __name__ == "__main__":
    main()
