// Films of executions and histories, in Chromium. checkers/sim/tests/films.rs writes the documents and starts this.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, collisions, launch, looks, openDocument, size } from "./browser.mjs";

let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

test("the film of a ring buffer that fails: calls above, the machine below, what is outstanding", async () => {
  const page = await openDocument(browser, process.env.MOWGLI_FILM);
  assert.match(await page.locator("#note").innerText(), /messages arrive in order[^]*replay: '/);
  const names = await page.locator("#timeline .bar").evaluateAll((bars) => bars.map((bar) => bar.getAttribute("aria-label")));
  assert.ok(names.some((name) => name.includes("submit(10)")) && names.some((name) => name.includes("receive()")), names.join());
  assert.equal(await collisions(page), 0);
  const at = async (step) => page.waitForFunction((n) => Number(document.body.dataset.step) === n, step);
  const last = Number(await page.locator("#step").getAttribute("max"));
  // The end comes first: the assertion failed here.
  await at(last);
  assert.match(await page.locator("#what").innerText(), /messages arrive in order/);
  assert.equal(await page.locator("#forward").isDisabled(), true);
  await page.click("#first");
  await at(0);
  assert.equal(await page.locator("#outstanding").innerText(), "nothing");
  assert.equal(await page.locator(".node").count(), 2);
  const headings = await page.locator(".node h3").allInnerTexts();
  assert.deepEqual(headings, ["Node 0", "Node 1"]);
  // A put waits in its queue pair and is outstanding there.
  await page.locator("#steps button").filter({ hasText: "posts put" }).first().click();
  const posted = Number(await page.locator("body").getAttribute("data-step"));
  assert.ok(posted > 0);
  assert.match(await page.locator("#outstanding").innerText(), /is not yet placed/);
  assert.match(await page.locator(".instruction").first().innerText(), /submit/);
  await page.click("#forward");
  await at(posted + 1);
  await page.keyboard.press("ArrowLeft");
  await at(posted);
  await page.click("#weak");
  await page.waitForSelector("#what .weak");
  const weak = Number(await page.locator("body").getAttribute("data-step"));
  assert.ok(weak > posted);
  await page.setViewportSize({ width: 860, height: 740 });
  await page.evaluate(() => scrollTo(0, 0));
  await looks(page, "film");
  await page.setViewportSize(size);
  // A call leads to its beginning, by mouse and by keyboard.
  await page.locator("#timeline .bar").first().click();
  await page.waitForFunction((n) => Number(document.body.dataset.step) < n, weak);
  const begin = Number(await page.locator("body").getAttribute("data-step"));
  await page.keyboard.press("End");
  await at(last);
  await page.locator('#timeline .bar[tabindex="0"]').press("Enter");
  await at(begin);
  await page.locator("#step").fill("3");
  await at(3);
  await page.selectOption("#scale", "time");
  assert.ok((await page.locator("#timeline .bar").count()) === names.length);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.click("#theme");
  assert.notEqual(await ground(), light);
  await page.setViewportSize({ width: 400, height: 800 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 400, `${wide} wide`);
  await close(page);
});

test("a history in the look of films: the order, the bad response, other partitions", async () => {
  const page = await openDocument(browser, process.env.MOWGLI_HISTORY, { colorScheme: "dark" });
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  assert.match(await page.locator("#note.forbidden").innerText(), /not linearizable|VIOLATION/i);
  assert.match(await page.locator("#about").innerText(), /No order explains/);
  assert.equal(await page.locator("#timeline .bar.blocked").count(), 1);
  assert.match(await page.locator("#timeline text.wall").innerHTML(), /no order gets past this response/);
  assert.equal(await collisions(page), 0);
  const placed = await page.locator("#timeline .bar.placed").count();
  assert.equal(await page.locator("#timeline text.number").count(), placed);
  assert.equal(await page.locator("#timeline .bar.pending").count(), 1);
  await page.locator("#timeline .bar.placed").first().click();
  await page.waitForSelector("#timeline .bar.chosen");
  assert.match(await page.locator("#about").innerText(), /number \d+ of \d+ in the order/);
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator("#about").innerText(), /\d+ in the order|not in the order/);
  const width = () => page.locator("#timeline svg").getAttribute("width");
  const before = Number(await width());
  await page.locator("#zoom").fill("2");
  assert.ok(Number(await width()) > 2 * before);
  await page.selectOption("#scale", "time");
  assert.ok((await page.locator("#timeline .bar").count()) > placed);
  await close(page);
});
