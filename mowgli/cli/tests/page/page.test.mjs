// What a user does with the page, in Chromium. mowgli/cli/tests/page.rs starts the server and this.
import assert from "node:assert/strict";
import fs from "node:fs";
import { after, before, test } from "node:test";
import { PNG } from "pngjs";
import { close, launch, looks, size } from "./browser.mjs";

const url = process.env.MOWGLI_PAGE;
// Of a server whose searches have little time.
const hurried = process.env.MOWGLI_HURRIED_PAGE;
let browser;
let context;

before(async () => {
  browser = await launch();
  context = await browser.newContext({ viewport: size, reducedMotion: "reduce", acceptDownloads: true });
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(url).origin });
  // On a machine with other work too.
  context.setDefaultTimeout(120_000);
});
after(() => browser?.close());

/** Opens the page, and fails if it loads anything from elsewhere or says that something is wrong. */
async function open(address = url) {
  const page = await context.newPage();
  page.wrong = [];
  page.on("pageerror", (error) => page.wrong.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
  page.on("request", (request) => /^(blob|data):/.test(request.url()) || request.url().startsWith(new URL(address).origin) || page.wrong.push(request.url()));
  await page.goto(address);
  await page.waitForSelector("body[data-ready]");
  return page;
}

/** Takes something from the catalogue. */
async function take(page, name) {
  await page.click("#open-catalogue");
  await page.fill("#catalogue-search", name);
  await page.click(`#catalogue-list [data-name="${name}"]`);
  await page.waitForFunction((n) => document.querySelector("#test-name").textContent === n, name);
}

/** Writes a whole new text. */
async function write(page, text) {
  await page.click(".cm-content");
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

const verdict = (page, setting, condition = 0) =>
  page.locator(`button.verdict[data-setting="${setting}"][data-condition="${condition}"]`);
const word = (page, ...which) => verdict(page, ...which).innerText();

async function download(page, click) {
  const [file] = await Promise.all([page.waitForEvent("download"), click()]);
  return [file.suggestedFilename(), fs.readFileSync(await file.path())];
}

test("verdicts side by side, an outcome explained, and how it looks", async () => {
  const page = await open();
  await take(page, "SB3");
  await verdict(page, "rdma-tso").waitFor();
  assert.equal(await word(page, "rdma-tso"), "allowed");
  assert.equal(await page.locator("table.outcomes tbody tr").count(), 4);
  await page.check('[data-setting="sc"] >> nth=0');
  await verdict(page, "sc").waitFor();
  assert.equal(await word(page, "sc"), "forbidden");
  await page.click('.sign[data-setting="rdma-tso"][data-outcome="0:a=0 /\\\\ 1:b=0"]');
  await page.waitForSelector(".explanation .picture svg");
  // The words over a picture do not lie on boxes, and none on another: what the layout promises, as the browser draws it.
  const overlaps = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll(".paper g.event rect")].map((e) => e.getBoundingClientRect());
    const labels = [...document.querySelectorAll(".paper text.arrow")].map((e) => e.getBoundingClientRect());
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 4 && b.top < a.bottom - 4;
    return labels.filter((l, i) => boxes.some((b) => meet(l, b)) || labels.slice(0, i).some((o) => meet(l, o))).length;
  });
  assert.equal(overlaps, 0);
  await page.uncheck('[data-setting="sc"] >> nth=0');
  await page.waitForFunction(() => !document.querySelector('th[data-setting="sc"]'));
  await page.evaluate(() => {
    for (const small of document.querySelectorAll("th small")) small.textContent = "";
    scrollTo(0, 0);
  });
  await looks(page, "verdicts");
  await close(page);
});

test("events and instructions highlight one another, relations are hidden, the picture moves", async () => {
  const page = await open();
  await take(page, "IRIW1");
  await verdict(page, "rdma-tso").click();
  const event = page.locator(".paper g.event").filter({ hasText: "nrR" }).first();
  await event.hover();
  assert.ok((await page.locator(".cm-marked").count()) > 0);
  assert.ok((await page.locator(".paper g.event.lit").count()) >= 2, "the two halves of a get");
  await page.mouse.move(0, 0);
  await page.waitForFunction(() => !document.querySelector(".cm-marked"));
  await page.locator(".cm-line span").filter({ hasText: ":=" }).first().click();
  await page.waitForSelector(".paper g.event.lit");
  const arrow = page.locator(".paper path.arrow.rf").first();
  assert.equal(await arrow.isVisible(), true);
  await page.uncheck('[data-relation="rf"]');
  assert.equal(await arrow.isVisible(), false);
  const box = () => page.locator(".paper svg").getAttribute("viewBox");
  const whole = await box();
  await page.click('[aria-label="Magnify"]');
  assert.notEqual(await box(), whole);
  await page.locator(".paper svg").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("0");
  assert.equal(await box(), whole);
  const [svgName, svg] = await download(page, () => page.click('[aria-label="Save as SVG"]'));
  assert.equal(svgName, "IRIW1.svg");
  assert.match(svg.toString(), /^<svg /);
  const [pngName, png] = await download(page, () => page.click('[aria-label="Save as PNG"]'));
  assert.equal(pngName, "IRIW1.png");
  assert.ok(PNG.sync.read(png).width > 500);
  await close(page);
});

test("a forbidden outcome has cycles with axiom and cell, and relaxations", async () => {
  const page = await open();
  await take(page, "RDMA-3e");
  await page.waitForFunction(() => document.querySelector("button.verdict.forbidden, .sign.forbidden"));
  await page.locator("button.verdict.forbidden, .sign.forbidden").first().click();
  await page.waitForSelector(".edges");
  assert.ok((await page.locator(".edges tbody tr").count()) >= 2);
  assert.ok((await page.locator(".paper path.arrow.cycle").count()) >= 2);
  const explained = await page.locator(".explanation").innerText();
  assert.match(explained, /Any one of these would allow it/);
  await page.evaluate(() => {
    for (const small of document.querySelectorAll("th small")) small.textContent = "";
    document.querySelector(".explanation").scrollIntoView();
  });
  await looks(page, "forbidden");
  await close(page);
});

test("mistakes are underlined while typing, names are completed", async () => {
  const page = await open();
  await take(page, "SB3");
  await write(page, "RDMA t\n{ x@1=0; }\nP0@1 ;\nx := nobody ;\nexists (x=1)\n");
  await page.waitForSelector(".cm-lintRange-error");
  assert.match(await page.locator("#problems").innerText(), /nobody/);
  await page.click("#problems button");
  await write(page, "RDMA t\n{ elsewhere@1=0; }\nP0@1 ;\nelsewhere := 1 ;\nexists (elsewhere=1)\n");
  // The underline goes with the old text; the names are known once the parser has accepted the new one.
  await page.waitForSelector('body[data-usable="true"]');
  assert.equal(await page.locator(".cm-lintRange-error").count(), 0);
  await page.keyboard.press("Control+End");
  await page.keyboard.type("elsewh");
  await page.keyboard.press("Control+Space");
  await page.waitForSelector(".cm-tooltip-autocomplete");
  assert.match(await page.locator(".cm-tooltip-autocomplete").innerText(), /elsewhere/);
  await page.keyboard.press("Escape");
  await close(page);
});

test("an answer of the parser that comes late is about the text that it has read", async () => {
  const page = await open();
  await take(page, "SB3");
  await verdict(page, "rdma-tso").waitFor();
  await page.evaluate(async () => {
    const { page: shown } = await import("./app.js");
    const reallyFetch = window.fetch;
    window.fetch = async (address, ...more) => {
      const response = await reallyFetch(address, ...more);
      // The catalogue's test may be read still.
      if (address !== "api/parse" || !more[0].body.includes("RDMA first")) return response;
      const answer = await response.text();
      window.fetch = reallyFetch;
      shown.editor.replace("test", "RDMA t\n{ x@1=0; }\nP0@1 ;\nx := nobody ;\nexists (x=1)\n");
      return new Response(answer);
    };
  });
  const checked = page.waitForResponse((response) => response.url().endsWith("api/check"));
  await write(page, "RDMA first\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)\n");
  assert.equal((await checked).status(), 200);
  await page.waitForSelector(".cm-lintRange-error");
  await close(page);
});

test("a key stroke brings a verdict; how soon is printed", async (t) => {
  const page = await open();
  for (const name of ["SB3", "IRIW1", "RDMA-3e", "MP1"]) {
    await take(page, name);
    await verdict(page, "rdma-tso").waitFor();
    await page.click(".cm-content");
    await page.evaluate(() => performance.clearMeasures());
    await page.keyboard.press("Control+End");
    await page.keyboard.press("Space");
    await page.waitForFunction(() => performance.getEntriesByType("measure").length > 0);
    const [time] = await page.evaluate(() => performance.getEntriesByType("measure").map((entry) => entry.duration));
    t.diagnostic(`${name}: ${time.toFixed(0)} ms`);
  }
  await close(page);
});

test("a model file of one's own", async () => {
  const page = await open();
  await take(page, "MP1");
  await page.check('[data-setting="my.cat"]');
  await page.check('[data-setting="rdma-tso"]');
  await page.waitForSelector('th[data-setting="my.cat"]');
  assert.equal(await word(page, "my.cat"), "allowed");
  assert.equal(await word(page, "rdma-tso"), "forbidden");
  await page.click("#tab-model");
  await write(page, "\"sc\" acyclic po | rf | rb | mo as sc");
  await page.waitForFunction(() => document.querySelector('button.verdict[data-setting="my.cat"]')?.innerText === "forbidden");
  await verdict(page, "my.cat").click();
  await page.waitForFunction(() => document.querySelector(".explanation")?.innerText.includes('acyclic "sc"'));
  await write(page, "acyclic nothing");
  await page.waitForSelector(".cm-lintRange-error");
  await close(page);
});

test("a test to which none of the chosen models applies gets others", async () => {
  const page = await open();
  await take(page, "SB3");
  await verdict(page, "rdma-tso").waitFor();
  await take(page, "LOCO-3a");
  await verdict(page, "rdma-wait").waitFor();
  await close(page);
});

test("clients of libraries", async () => {
  const page = await open();
  await take(page, "LOCO-23");
  await verdict(page, "spec").waitFor();
  assert.equal(await word(page, "spec"), "forbidden");
  await verdict(page, "spec").click();
  await page.waitForFunction(() => document.querySelector(".explanation pre")?.innerText.includes("cycle"));
  assert.ok((await page.locator(".explanation .paper path.arrow.cycle").count()) >= 2);
  await close(page);
});

test("networks that order less: verdicts, pictures and the machine", async () => {
  const page = await open();
  await take(page, "MP+puts");
  await verdict(page, "rdma-tso").waitFor();
  const tiers = page.locator("details.tiers");
  assert.equal(await tiers.locator("label").first().isVisible(), false);
  await tiers.locator("summary").click();
  assert.deepEqual(await tiers.locator("[data-tier]").evaluateAll((all) => all.map((e) => e.dataset.tier)),
    ["ooo-rw", "ooo-all", "pcie-relaxed", "unordered"]);
  const choose = (setting) => page.check(`input[data-setting="${setting}"]`);
  await choose("rdma-tso+ooo-rw");
  await verdict(page, "rdma-tso+ooo-rw").waitFor();
  assert.equal(await word(page, "rdma-tso"), "forbidden");
  assert.equal(await word(page, "rdma-tso+ooo-rw"), "allowed");
  // The execution is drawn, and the machine of this network takes its steps.
  await verdict(page, "rdma-tso+ooo-rw").click();
  await page.waitForSelector(".explanation .picture svg g.event");
  await page.click("#replay-witness");
  await page.waitForSelector(".step.next");
  assert.equal(await page.inputValue("#machine-model"), "rdma-tso+ooo-rw");
  const total = Number((await page.locator(".note").innerText()).match(/(\d+) to replay/)[1]);
  for (let step = 1; step <= total; step += 1) {
    await page.click("#forward");
    await page.waitForFunction((n) => document.querySelectorAll(".past li").length === n, step);
  }
  assert.match(await page.locator(".note").innerText(), /This is the outcome asked about/);
  // With a request the outcome is forbidden, and the cycle says why.
  await page.click("#tab-verdicts");
  await take(page, "MP+puts+strong");
  await page.waitForFunction(() => document.querySelector('button.verdict.forbidden[data-setting="rdma-tso+ooo-rw"]'));
  await verdict(page, "rdma-tso+ooo-rw").click();
  await page.waitForSelector(".edges");
  assert.match(await page.locator(".edges").first().innerText(), /strong/);
  // Regions of relaxed ordering have a meaning on one tier.
  await take(page, "MP+relaxed");
  await verdict(page, "rdma-tso+pcie-relaxed").waitFor();
  assert.equal(await word(page, "rdma-tso+pcie-relaxed"), "allowed");
  assert.equal(await page.isDisabled('input[data-setting="rdma-tso+ooo-rw"]'), true);
  // Clients stand on a network, too.
  await take(page, "LOCO-12");
  await verdict(page, "spec").waitFor();
  await choose("spec+unordered");
  await verdict(page, "spec+unordered").waitFor();
  await close(page);
});

test("tests of coreRMA", async () => {
  const page = await open();
  await take(page, "RMA-MP4");
  await page.waitForFunction(() => document.querySelector('button.verdict[data-setting="corerma"]'));
  // One outcome that the model allows, and one that it forbids.
  for (const says of ["allowed", "forbidden"]) {
    await page.locator(`.sign.${says}[data-setting="corerma"], button.verdict.${says}[data-setting="corerma"]`).first().click();
    await page.waitForSelector(`.explanation h2 .verdict.${says}`);
    await page.waitForSelector(".explanation .paper svg");
  }
  assert.match(await page.locator(".explanation").innerText(), /breaks a rule/);
  await page.click("#tab-machine");
  await page.waitForFunction(() => document.querySelector("#view-machine").innerText.includes("coreRMA have none"));
  await close(page);
});

test("the machine by hand, back, at random, and a witness replayed", async () => {
  const page = await open();
  await take(page, "SB3");
  await verdict(page, "rdma-tso").click();
  await page.click("#replay-witness");
  const past = page.locator(".past li");
  await page.waitForSelector(".step.next");
  const steps = async (count) => page.waitForFunction((n) => document.querySelectorAll(".past li").length === n, count);
  const total = Number((await page.locator(".note").innerText()).match(/(\d+) to replay/)[1]);
  for (let step = 1; step <= 8; step += 1) {
    await page.click("#forward");
    await steps(step);
  }
  await page.waitForFunction(() => document.querySelector("#status").textContent === "", undefined, { timeout: 10_000 });
  await looks(page, "machine");
  for (let step = 9; step <= total; step += 1) {
    await page.click("#forward");
    await steps(step);
  }
  assert.match(await page.locator(".note").innerText(), /This is the outcome asked about/);
  await page.click("#back");
  await steps(total - 1);
  await page.click("#restart");
  await steps(0);
  // A step in its box, one by its key, one from the list.
  await page.locator(".cpu .do").first().click();
  await steps(1);
  assert.ok((await page.locator(".slot.posted").count()) === 1);
  await page.locator("#view-machine").focus();
  await page.keyboard.press("1");
  await steps(2);
  await page.locator(".step").last().click();
  await steps(3);
  await page.keyboard.press("Backspace");
  await steps(2);
  await page.click("#finish");
  await page.waitForFunction(() => document.querySelector(".note").innerText.startsWith("The end"));
  await past.nth(1).locator("button").click();
  await steps(2);
  await page.click("#copy-state");
  const text = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(text, /store buffer: /);
  assert.match(text, /memory: y@1=0 x@2=0/);
  await page.selectOption("#machine-model", "rdma-sc");
  await steps(0);
  assert.equal(await page.getByText("Store buffer of").count(), 0);
  await close(page);
});

test("robustness, and a fix applied by a click", async () => {
  const page = await open();
  await take(page, "SB3");
  await page.click("#tab-robust");
  await page.click("#apply-fix");
  await page.waitForFunction(() => document.querySelector("#view-robust")?.innerText.match(/robust by|robust, exhaustively/));
  assert.match(await page.locator(".cm-content").innerText(), /probe/);
  await close(page);
});

test("on a network that orders less, operations that ask mend a program", async () => {
  const page = await open();
  await take(page, "MP+puts");
  await verdict(page, "rdma-tso").waitFor();
  await page.click("#tab-robust");
  await page.selectOption("#robust-model", "rdma-tso+unordered");
  await page.click("#apply-fix");
  await page.waitForFunction(() => document.querySelector(".cm-content").innerText.includes("strong y^2 := 1"));
  await close(page);
});

test("a link has the whole state", async () => {
  const page = await open();
  await take(page, "MP1");
  await page.click("#tab-machine");
  await page.locator(".step").first().click();
  await page.waitForSelector(".past li");
  await page.click("#share");
  await page.waitForFunction(() => document.querySelector("#status").textContent.includes("copied"));
  const link = await page.evaluate(() => navigator.clipboard.readText());
  const other = await open(link);
  await other.waitForSelector(".past li");
  assert.equal(await other.locator("#test-name").innerText(), "MP1");
  assert.equal(await other.locator("#tab-machine").getAttribute("aria-selected"), "true");
  const [name, json] = await download(other, () => other.click("#save-json"));
  assert.equal(name, "MP1.json");
  assert.equal(JSON.parse(json).schedule.length, 1);
  const [file] = await download(other, () => other.click("#save-text"));
  assert.equal(file, "MP1.litmus");
  await close(other);
  await close(page);
});

test("a search without end is stopped, by its limit and by hand, and the page stays usable", async () => {
  const page = await open(hurried);
  await take(page, "SB3");
  const threads = 8;
  const row = (cell) => Array.from({ length: threads }, (_, t) => cell(t)).join(" | ") + " ;\n";
  let text = `RDMA endless\n{ ${Array.from({ length: threads }, (_, t) => `x${t}@1=0;`).join(" ")} }\n${row((t) => `P${t}@1`)}`;
  const shown = [];
  for (let r = 0; r < 6; r += 1) {
    text += row((t) => `x${t} := ${r + 1}`) + row((t) => `a${t}${r} := x${(t + r + 1) % threads}`);
    for (let t = 0; t < threads; t += 1) shown.push(`${t}:a${t}${r};`);
  }
  await write(page, `${text}locations [${shown.join(" ")}]\nexists (x0=9)\n`);
  await page.locator("th .stop").first().click();
  await page.waitForFunction(() => document.querySelector("table.conditions")?.innerText.includes("stopped"));
  await page.waitForFunction(() => document.querySelector("table.conditions").innerText.includes("time limit reached"));
  await take(page, "MP1");
  await page.waitForSelector('button.verdict.forbidden[data-setting="rdma-tso"]');
  await close(page);
});

test("dark, narrow, and by keyboard", async () => {
  const page = await open();
  await take(page, "SB3");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.click("#theme");
  assert.notEqual(await ground(), light);
  await page.setViewportSize({ width: 400, height: 800 });
  for (const tab of ["#tab-verdicts", "#tab-machine", "#tab-robust"]) {
    await page.click(tab);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 400, `${tab} is ${wide} wide`);
  }
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.locator("#tab-verdicts").getAttribute("aria-selected"), "true");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("IRIW2");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#test-name").textContent === "IRIW2");
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll("button, select, input, [role=tab]")].filter((e) =>
      !e.textContent.trim() && !e.getAttribute("aria-label") && !e.labels?.length).map((e) => e.outerHTML));
  assert.deepEqual(unnamed, []);
  await close(page);
});
