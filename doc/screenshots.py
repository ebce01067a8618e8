"""Look at the built pages in a real browser: widths of a desk and of a phone, light and dark.

    pip install playwright pillow
    apt install chromium  # or: playwright install chromium
    python doc/screenshots.py doc/_build /tmp/shots [--pages index.html api.html ...]
        [--browser /usr/bin/chromium]

Writes ``PAGE-WIDTH-SCHEME.png``, and prints the pages that are wider than the window, with the
elements that stick out, and the text whose contrast is below level AA of WCAG 2 (4.5, or 3 if it is
large), as the browser computes its colours. Figures are drawn alone, with the page's style: those
whose text has pixels of too little contrast, or which are a slab of light on a dark page, are
printed, too. Ends with an error if there is any. Not a part of CI.
"""

import argparse
import io
import shutil
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import unquote, urlsplit

from PIL import Image
from playwright.sync_api import sync_playwright

PAGES = [
    "index.html", "getting_started.html", "guide/index.html", "guide/choosing.html",
    "guide/recipes.html", "guide/compile_time.html", "text.html", "graphs.html",
    "map_inference.html", "capabilities.html", "api.html", "migration.html", "benchmarks.html",
    "papers/gdmm.html", "references.html", "changelog.html", "auto_examples/index.html",
    "auto_examples/plot_digit_strings.html", "generated/skstruct.SAGCRF.html",
    "generated/skstruct.Chain.html", "generated/skstruct.map_inference.solve_map.html",
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
# Pairs of a text and its contrast; backgrounds that let others through are blended.
CONTRAST = """() => {
  const rgba = (text) => {
    const [r, g, b, a] = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [scale * r, scale * g, scale * b, a === undefined ? 1 : a];
  };
  const over = (top, below) => [0, 1, 2].map((k) => top[3] * top[k] + (1 - top[3]) * below[k]);
  const behind = (e) => {
    if (!e) return [255, 255, 255];
    const colour = rgba(getComputedStyle(e).backgroundColor);
    return colour[3] === 1 ? colour : over(colour, behind(e.parentElement));
  };
  const light = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, part, k) => {
    const c = colour[k] / 255;
    return sum + part * (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
  const opacity = (e) => (e ? getComputedStyle(e).opacity * opacity(e.parentElement) : 1);
  const found = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || !e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (e.closest("svg, math, script, noscript, .skip-link, [hidden]")) continue;
    const style = getComputedStyle(e), size = parseFloat(style.fontSize), below = behind(e);
    const ink = rgba(style.color);
    const [a, b] = [over([...ink.slice(0, 3), ink[3] * opacity(e)], below), below].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const key = `${e.tagName}.${e.className} ${style.color} on ${below.map(Math.round)}`;
    if (ratio < (large ? 3 : 4.5)) found.set(key, `${ratio.toFixed(2)} "${text.slice(0, 30)}"`);
  }
  return [...found].map((pair) => pair.join(": "));
}"""
# Pictures that a page shows, each with its style there and the colour behind it.
PICTURES = """() => {
  document.querySelectorAll("details").forEach((e) => { e.open = true; });
  const behind = (e) => {
    const colour = e ? getComputedStyle(e).backgroundColor : "white";
    return colour.startsWith("rgba") && e ? behind(e.parentElement) : colour;
  };
  return [...document.querySelectorAll("article img")]
    .filter((e) => e.checkVisibility())
    .map((e) => {
      const { filter, mixBlendMode, backgroundColor } = getComputedStyle(e);
      const style = `filter:${filter};mix-blend-mode:${mixBlendMode};background:${backgroundColor}`;
      return [e.src, style, behind(e.parentElement)];
    });
}"""
TEXTS = """() => [...document.querySelectorAll("text")].map((e) => {
  const { left, top, right, bottom } = e.getBoundingClientRect();
  return [e.textContent.trim(), left, top, right, bottom];
})"""
SCALE = 3  # of pixels, so that thin letters have some of their colour alone
SLAB = 0.4  # of a figure on a dark page may be nearly white


def contrast(*colours):
    """The ratio that WCAG 2 defines, of two colours from 0 to 255."""
    low, high = sorted(
        sum(
            part * (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4)
            for part, c in zip((0.2126, 0.7152, 0.0722), (v / 255 for v in colour), strict=True)
        )
        for colour in colours
    )
    return (high + 0.05) / (low + 0.05)


def wrong_picture(probe, source, style, below, scheme):
    """What is wrong with a picture of that style on that colour."""
    path = Path(unquote(urlsplit(source).path))
    if path.suffix == ".svg":
        shown = path.read_text(encoding="utf-8")
    else:
        shown = f'<img width="300" src="data:;base64,{b64encode(path.read_bytes()).decode()}">'
    page = f'<body style="margin:0;background:{below}"><div id="all" style="{style}">{shown}</div>'
    probe.set_content(f"{page}<style>#all {{ display: inline-flex }}</style>")
    whole = probe.locator("#all").screenshot()
    whole = Image.open(io.BytesIO(whole)).convert("RGB")
    for text, *box in probe.evaluate(TEXTS):
        part = whole.crop(tuple(round(SCALE * v) for v in box))
        colours = part.getcolors(part.width * part.height) if text else []
        ratio = max((contrast(max(colours)[1], colour) for _, colour in colours), default=21)
        if ratio < 4.5:
            yield f'{path.name}: {ratio:.2f} "{text[:30]}"'
    light = sum(n for n, colour in whole.getcolors(whole.width * whole.height) if min(colour) > 200)
    if scheme == "dark" and light > SLAB * whole.width * whole.height:
        yield f"{path.name}: {light / (whole.width * whole.height):.0%} nearly white"


def wrong_pictures(browser, pictures, scheme):
    """Print what is wrong with pictures; how many are."""
    probe = browser.new_page(device_scale_factor=SCALE, viewport={"width": 1000, "height": 700})
    found = [line for picture in pictures for line in wrong_picture(probe, *picture, scheme)]
    print(*(f"{scheme}: {line}" for line in found), sep="\n", end="\n" if found else "")
    probe.close()
    return len(found)


def shoot(browser, build, folder, pages, width, scheme, full):
    """Take all pages once; the number of what is wrong with them."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page, wrong, pictures = context.new_page(), 0, set()
    for name in pages:
        page.goto((build / name).resolve().as_uri())
        page.wait_for_timeout(200)
        stem = name.removesuffix(".html").replace("/", "-")
        page.screenshot(path=folder / f"{stem}-{width}-{scheme}.png", full_page=full)
        over, faint = page.evaluate(OVERFLOW), page.evaluate(CONTRAST)
        if over > 0:
            print(f"{name} at {width}, {scheme}: {over} px too wide", page.evaluate(STICKS_OUT))
        if faint:
            print(f"{name} at {width}, {scheme}: faint text", *faint, sep="\n    ")
        wrong += over > 0 or bool(faint)
        pictures |= {tuple(picture) for picture in page.evaluate(PICTURES)}
    context.close()
    # They have the same colours at other widths.
    return wrong + (wrong_pictures(browser, sorted(pictures), scheme) if width == 1280 else 0)


def main():
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", nargs="*", help="all pages of the build: --pages all")
    parser.add_argument("--full", action="store_true", help="whole pages, not a screen of each")
    parser.add_argument("--browser", default=shutil.which("chromium"), help="path of Chromium")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    pages = args.pages or [name for name in PAGES if (args.build / name).is_file()]
    if pages == ["all"]:
        pages = sorted(str(path.relative_to(args.build)) for path in args.build.rglob("*.html"))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=args.browser, args=["--no-sandbox"])
        wrong = sum(
            shoot(browser, args.build, args.folder, pages, width, scheme, args.full)
            for width in (1280, 390)
            for scheme in ("light", "dark")
        )
        browser.close()
    print(f"{len(pages)} pages, 4 pictures each, {wrong} things wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
