// Shows `data`, a history as loco_history::Report::html has it: the calls of one partition as a timeline, with the orders that were found.
const part = h("select", { id: "part", onchange: () => show() },
  data.partitions.map((one, i) => h("option", { value: i }, `${one.name} (${one.verdict}, ${one.operations.length} operations)`)));
const about = h("pre", { id: "about", "aria-live": "polite" });
const lanes = h("div", { id: "timeline" });
const scale = scales("time", () => draw());
let chosenOrder = 0;
let chosen = -1;
let drawing;

const partition = () => data.partitions[Number(part.value)];

function words(one, i) {
  const op = one.operations[i];
  return `[${op.index}] thread ${one.threads[op.row]}, ${op.from} .. ${op.to === null ? "pending" : op.to} ns\n${op.text}`;
}

/** What the order that is drawn says of an operation. */
function placed(order, i) {
  const at = order.operations.indexOf(i);
  if (at >= 0) return `number ${at + 1} of ${order.operations.length} in the order that is drawn; state after it: ${order.states[at]}`;
  return i === chosen ? "no order with this operation was found" : "not in the order that is drawn";
}

function draw() {
  const one = partition();
  if (!one) return lanes.replaceChildren(h("p", { class: "quiet" }, "The history has no calls."));
  const order = one.orders[chosenOrder] ?? { operations: [], states: [] };
  const inOrder = new Set(order.operations);
  const wall = one.blocked === null ? null : one.operations[one.blocked].to;
  const kind = (op, i) => [
    inOrder.has(i) ? "placed" : one.verdict !== "ok" && (wall === null || op.from <= wall) ? "open" : "",
    i === one.blocked ? "blocked" : "", i === chosen ? "chosen" : "",
  ].join(" ").trim();
  const first = Math.min(...one.operations.map((op) => op.from));
  const since = (time) => (time === null ? null : time - first);
  drawing = timeline(lanes, {
    label: `Calls of partition ${one.name}, by thread`,
    rows: one.threads.map((name) => `thread ${name}`),
    last: Math.max(...one.operations.flatMap((op) => [since(op.from), since(op.to) ?? 0])),
    bars: one.operations.map((op, i) => ({
      row: op.row, from: since(op.from), to: since(op.to), text: op.text, about: `${words(one, i)}\n${placed(order, i)}`, kind: kind(op, i),
    })),
    path: order.operations,
    wall: wall === null ? null : { at: since(wall), text: one.verdict === "violation" ? "no order gets past this response" : "no order got past this response" },
    point: (i) => { about.textContent = `${words(one, i)}\n${placed(order, i)}`; },
    choose,
    ...scale.chosen(),
  });
  return drawing;
}

/** Draws the longest order that has an operation. */
function choose(i) {
  const one = partition();
  chosen = i;
  const having = one.orders.map((order, n) => ({ order, n })).filter(({ order }) => order.operations.includes(i));
  const best = having.reduce((a, b) => (a && a.order.operations.length >= b.order.operations.length ? a : b), null);
  if (best) chosenOrder = best.n;
  draw();
  // Its words are shown when it has the focus.
  lanes.querySelector(`[data-bar="${i}"]`).focus();
}

/** The bad response, and what the best order says of it, in words. */
function explained(one) {
  if (!one || one.blocked === null) return "";
  const op = one.operations[one.blocked];
  const order = one.orders[0];
  const state = order?.states.length ? `; the order drawn ends in state ${order.states.at(-1)}` : "";
  return `No order explains [${op.index}] of thread ${one.threads[op.row]}: ${op.text} (${op.from} .. ${op.to} ns)${state}.`;
}

function show() {
  [chosenOrder, chosen] = [0, -1];
  const one = partition();
  draw();
  about.textContent = explained(one);
  if (one && one.blocked !== null) {
    const first = Math.min(...one.operations.map((op) => op.from));
    drawing.reveal(one.operations[one.blocked].to - first);
  }
}

const legend = (kind, text) => [h("i", { class: kind }), text];
document.getElementById("main").append(...[
  h("section", { class: "panel", "aria-label": "Timeline" },
    h("div", { class: "bar" }, h("h2", {}, "Calls"), h("label", {}, "Partition ", part), h("span", { class: "grow" }), scale.elements), lanes,
    h("p", { class: "legend" }, legend("placed", "in the order drawn, with its number"), legend("open", "invoked before the bad response, not in the order"),
      legend("", "later"), legend("pending", "without response: may take effect at any time, or never"))),
  data.omitted > 0 && h("p", {}, `${data.omitted} partitions are not drawn.`),
  h("p", { class: "quiet" }, "A click on a call draws the longest order that has it. Threads are named as node.thread."),
  about,
].filter(Boolean));
addEventListener("resize", draw);
theme();
show();
