// Draws the nodes of a machine as boxes: threads, store buffers, queue pairs, memory. Needs no other file.

/** Makes an element. Attributes that begin with "on" are listeners; false and null leave an attribute out. */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Entries of `now` that were not in `before`. */
function fresh(now, before) {
  const left = (before ?? []).map((e) => JSON.stringify(e));
  return now.map((entry) => {
    const at = left.indexOf(JSON.stringify(entry));
    if (at >= 0) left.splice(at, 1);
    return before !== undefined && at < 0;
  });
}

function queue(entries, before, within, matches, empty, first = 0) {
  const isNew = fresh(entries, before);
  if (entries.length === 0) return h("ul", { class: "queue" }, h("li", { class: "slot quiet" }, empty));
  return h("ul", { class: "queue" }, entries.map((entry, at) => {
    const [steps, buttons] = within((step) => matches(step) && step.entry === first + at);
    return h("li", { class: `slot ${entry.stage.replaceAll(" ", "-")}${isNew[at] ? " fresh" : ""}`, "data-steps": steps || null },
      h("span", {}, entry.text), entry.stage !== entry.text && h("small", {}, entry.stage), buttons);
  }));
}

/** What the buffers of a concrete queue pair hold. */
const PARTS = {
  req_L: "posted", in_R: "requests at the other side", out_R: "answers at the other side", rsp_L: "answers back",
};

/** The buffers of these names of a concrete queue pair, with their entries. */
function parts(qp, before, within, matches, names) {
  let start = 0;
  const all = (qp.parts ?? []).map(({ name, entries }) => ({ name, first: start, end: (start += entries) }));
  let past = 0;
  const old = Object.fromEntries((before?.parts ?? []).map(({ name, entries }) => [name, before.pipe.slice(past, (past += entries))]));
  return names.flatMap((wanted) => all.filter(({ name }) => name === wanted)).map(({ name, first, end }) => [
    h("h4", {}, h("code", {}, name), ` ${PARTS[name]}`),
    queue(qp.pipe.slice(first, end), before && (old[name] ?? []), within, matches, "nothing", first),
  ]);
}

/**
 * Draws a node, counted from 1. `state` has
 * - `threads`: name, node (null: not shown), registers, `doing` or null, `idle` (words for null, "done" if it has none), `waits` (false,
 *   true, or for what), `acts` (whether it took the last step);
 * - `locations`: name and node;
 * - `machine` and `before`: views of the machine, the second may be null;
 * - `buffered`: whether there are store buffers;
 * - `firstNode`: the number that the first node is shown by, 1 if there is none.
 * `within` gets a predicate on steps and returns their numbers and buttons.
 */
export function nodeBox(node, state, within = () => ["", []]) {
  const shown = (number) => number - 1 + (state.firstNode ?? 1);
  const { machine, before } = state;
  const here = state.threads.map((thread, t) => ({ thread, t })).filter(({ thread }) => thread.node === node);
  const arriving = machine.threads.flatMap((buffers, t) =>
    buffers.queue_pairs.filter((qp) => qp.peer + 1 === node).map((qp) => ({ t, qp })));
  const none = { pipe: [], remote_writes: [], local_writes: [] };
  const old = (t, peer) => before && (before.threads[t]?.queue_pairs.find((qp) => qp.peer === peer) ?? none);
  const of = (t, buffer, peer) => (step) => step.thread === t && step.buffer === buffer && (peer === undefined || step.peer === peer);
  const memory = state.locations.map((l, at) => ({ ...l, at })).filter((l) => l.node === node);
  const queuePair = (thread, t) => (qp) => h("div", { class: "box nic" },
    h("h4", {}, `Queue pair ${thread.name} \u2192 node ${shown(qp.peer + 1)}`),
    qp.parts
      ? parts(qp, old(t, qp.peer), within, of(t, "pipe", qp.peer), ["req_L", "rsp_L"])
      : queue(qp.pipe, old(t, qp.peer)?.pipe, within, of(t, "pipe", qp.peer), "nothing under way"),
    h("h4", {}, qp.parts && h("code", {}, "wb_L "), `Back here, for ${thread.name}`),
    queue(qp.local_writes, old(t, qp.peer)?.local_writes, within, of(t, "local_writes", qp.peer), "nothing"));
  return h("section", { class: "node", "aria-label": `Node ${shown(node)}` },
    h("h3", {}, `Node ${shown(node)}`),
    here.map(({ thread, t }) => {
      const buffers = machine.threads[t];
      const [steps, buttons] = within((step) => step.thread === t && step.actor === "cpu");
      return h("div", { class: "thread" },
        h("div", { class: thread.acts ? "cpu box acts" : "cpu box", "data-steps": steps || null },
          h("b", {}, thread.name),
          thread.idle !== "" && h("code", { class: thread.doing ? "instruction" : "quiet" }, thread.doing ?? thread.idle ?? "done"),
          thread.waits && h("small", {}, thread.waits === true ? "waits" : `waits for ${thread.waits}`), buttons,
          h("div", { class: "registers" }, thread.registers.map(([name, value]) => h("span", { class: "register" }, `${name}=${value}`)))),
        state.buffered && h("div", { class: "box" }, h("h4", {}, `Store buffer of ${thread.name}`),
          queue(buffers.store_buffer, before ? before.threads[t]?.store_buffer ?? [] : undefined, within, of(t, "store_buffer"), "empty")),
        buffers.queue_pairs.map(queuePair(thread, t)));
    }),
    arriving.map(({ t, qp }) => h("div", { class: "box nic arriving" },
      parts(qp, old(t, qp.peer), within, of(t, "pipe", qp.peer), ["in_R", "out_R"]),
      h("h4", {}, qp.parts && h("code", {}, "wb_R "), `Arrived from ${state.threads[t].name}, not yet in memory`),
      queue(qp.remote_writes, old(t, qp.peer)?.remote_writes, within, of(t, "remote_writes", qp.peer), "nothing"))),
    h("div", { class: "box memory" }, h("h4", {}, "Memory", machine.units.includes(node - 1) && " \u2014 an atomic is half done"),
      h("div", { class: "words" }, memory.map((l) => {
        const changed = before && before.memory[l.at] !== machine.memory[l.at];
        return h("span", { class: changed ? "word fresh" : "word", "data-word": l.name }, h("b", {}, l.name), h("output", {}, String(machine.memory[l.at])));
      }), memory.length === 0 && h("span", { class: "quiet" }, "no locations"))));
}
