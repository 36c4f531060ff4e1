// A browser for the tests of what this project shows: Chromium, driven by Playwright. page.test.mjs of the command `mowgli` and
// films.test.mjs of the model fabric take it from here; each stands beside a copy of it and of the packages that it names.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";

const screenshots = process.env.MOWGLI_SCREENSHOTS;
const seen = path.dirname(new URL(import.meta.url).pathname);
export const size = { width: 1120, height: 680 };

/** Starts the browser. */
export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--font-render-hinting=none"],
  }).catch(async () => chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] }));
}

/** Opens a document from the disk, and fails if it loads anything at all. */
export async function openDocument(browser, file, more = {}) {
  const page = await browser.newPage({ viewport: size, reducedMotion: "reduce", ...more });
  page.wrong = [];
  const address = pathToFileURL(file).href;
  page.on("pageerror", (error) => page.wrong.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
  page.on("request", (request) => request.url() === address || page.wrong.push(request.url()));
  await page.goto(address);
  await page.waitForSelector("#timeline svg");
  return page;
}

/** Counts texts of a timeline that lie on one another, and words that are wider than their bars. */
export const collisions = (page) => page.evaluate(() => {
  const boxes = (selector) => [...document.querySelectorAll(selector)].map((e) => e.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const words = boxes("#timeline .bar text, #timeline text.wall");
  const wide = [...document.querySelectorAll("#timeline .bar")].filter((bar) => {
    const [box, text] = [bar.querySelector("rect"), bar.querySelector("text")].map((e) => e?.getBoundingClientRect());
    return text && text.right > box.right + 1;
  });
  return words.filter((one, i) => words.slice(0, i).some((other) => meet(one, other))).length + wide.length;
});

/** Closes a page, and fails if something on it was wrong. */
export async function close(page) {
  assert.deepEqual(page.wrong, []);
  await page.close();
}

/** Compares what is on the screen with a kept picture: most of it must be as it was. */
export async function looks(page, name) {
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.activeElement?.blur());
  const shot = await page.screenshot({ animations: "disabled", caret: "hide" });
  const kept = path.join(screenshots, `${name}.png`);
  if (process.env.MOWGLI_BLESS || !fs.existsSync(kept)) {
    assert.ok(process.env.MOWGLI_BLESS, `there is no ${kept}: run with MOWGLI_BLESS=1, and look at it`);
    fs.mkdirSync(screenshots, { recursive: true });
    fs.writeFileSync(kept, shot);
  }
  fs.writeFileSync(path.join(seen, `${name}.png`), shot);
  assert.ok(fs.statSync(kept).size < 100_000, `${kept} is kept small`);
  const [now, then] = [PNG.sync.read(shot), PNG.sync.read(fs.readFileSync(kept))];
  assert.deepEqual([now.width, now.height], [then.width, then.height]);
  const different = pixelmatch(now.data, then.data, null, now.width, now.height, { threshold: 0.2 });
  const share = different / (now.width * now.height);
  assert.ok(share < 0.02, `${name}: ${(100 * share).toFixed(1)} % of the picture differs`);
}
