// Shows `data`, an execution as loco_sim::Film has it: the calls as a timeline, and below it the machine at one step. Nodes are numbered
// from 0, as objects number them.
const film = data;
const last = film.frames.length - 1;
const weakSteps = film.frames.flatMap((frame, at) => (frame.step?.weak ? [at] : []));
let now = last;
let drawing;

const button = (id, text, title, onclick) => h("button", { type: "button", id, title, onclick }, text);
const slider = h("input", { type: "range", id: "step", min: 0, max: last, "aria-label": "Step", oninput: () => show(Number(slider.value)) });
const what = h("p", { id: "what", "aria-live": "polite" });
const machine = h("div", { class: "machine", id: "machine", role: "group", "aria-label": "Machine" });
const outstanding = h("ul", { id: "outstanding" });
const steps = h("ol", { class: "past", id: "steps" });
const lanes = h("div", { id: "timeline" });
const scale = scales("steps", () => draw());

/** The threads that do something: those that only set things up before the first step have no boxes. */
const acting = film.threads.map((_, t) => film.frames.some((frame) => frame.thread === t) || film.failure?.[0] === t);

/**
 * The calls of a thread. A thread that records its calls only when they are over, as clients of libraries do, has one from each record to
 * the next; what it is in at the end is known by what it waits for.
 */
function callsOf(t) {
  const calls = film.calls.filter((call) => call.thread === t);
  const notes = film.notes.filter((note) => note.thread === t);
  if (calls.length > 0 || notes.length + (film.frames[last].threads[t]?.waits_for ? 1 : 0) === 0) return calls;
  const steps = film.frames.flatMap((frame, at) => (frame.thread === t && frame.cpu ? [at] : []));
  const begin = (after) => steps.find((at) => at > after) ?? after;
  const over = notes.map(({ text, at }, i) => ({ thread: t, what: text, result: null, from: Math.min(at, begin(notes[i - 1]?.at ?? 0)), to: at }));
  const waits = film.frames[last].threads[t]?.waits_for;
  return waits ? [...over, { thread: t, what: `waits for ${waits}`, result: null, from: begin(notes.at(-1)?.at ?? 0), to: null }] : over;
}

const calls = film.threads.flatMap((_, t) => callsOf(t));

/** The threads that have a row: those that call objects, and those that see something weak or fail. */
const shownThreads = film.threads.map((_, t) => t).filter((t) =>
  calls.some((call) => call.thread === t) || film.failure?.[0] === t || weakSteps.some((at) => film.frames[at].thread === t));

/** The queue pairs that are in use at some time, by thread: their boxes stay, so that nothing jumps. */
const queuePairs = film.threads.map((_, t) => {
  const peers = new Set(film.frames.flatMap((frame) => (frame.machine.threads[t]?.queue_pairs ?? []).map((qp) => qp.peer)));
  return [...peers].sort((a, b) => a - b);
});

function draw() {
  const row = (t) => shownThreads.indexOf(t);
  drawing = timeline(lanes, {
    label: "Calls of the objects, by thread",
    rows: shownThreads.map((t) => film.threads[t].name),
    last,
    bars: calls.map((call) => {
      const failed = call.to === null && film.failure?.[0] === call.thread;
      const text = call.result === null ? call.what : `${call.what} \u2192 ${call.result}`;
      const when = call.to === null ? `from step ${call.from}, has not returned` : `steps ${call.from} to ${call.to}`;
      return { row: row(call.thread), from: call.from, to: call.to, text, about: `${film.threads[call.thread].name}: ${text}\n${when}`, kind: failed ? "blocked" : "" };
    }),
    ticks: film.frames.flatMap(({ step, thread }, at) =>
      (step && thread !== null && row(thread) >= 0 ? [{ row: row(thread), at, kind: step.weak ? "weak" : "", text: `step ${at}: ${step.what}` }] : [])),
    levels: film.frames.map((frame) => frame.outstanding.length),
    levelsName: "outstanding",
    choose: (i) => show(calls[i].from),
    go: show,
    wall: film.failure ? { at: last, text: "fails here" } : null,
    ...scale.chosen(),
  });
  drawing.now(now);
}

/** The view of the machine at a frame, with every queue pair that is ever in use. */
function view(at) {
  const frame = film.frames[at];
  return frame && {
    ...frame.machine,
    memory: frame.memory,
    threads: film.threads.map((_, t) => {
      const buffers = frame.machine.threads[t] ?? { store_buffer: [], queue_pairs: [] };
      const none = (peer) => ({ peer, pipe: [], remote_writes: [], local_writes: [] });
      return { ...buffers, queue_pairs: queuePairs[t].map((peer) => buffers.queue_pairs.find((qp) => qp.peer === peer) ?? none(peer)) };
    }),
  };
}

/** The state of a frame, as nodeBox wants it. */
function state(at) {
  const frame = film.frames[at];
  const threads = film.threads.map((thread, t) => {
    const is = frame.threads[t] ?? { state: "ready", waits_for: null };
    const call = calls.findLast((c) => c.thread === t && c.from <= at && (c.to === null || c.to > at));
    return {
      name: thread.name, node: acting[t] ? thread.node + 1 : null, registers: [], doing: call?.what ?? null,
      idle: { ready: "between calls", waiting: "" }[is.state] ?? is.state, waits: is.waits_for ?? false, acts: at > 0 && frame.thread === t && frame.cpu,
    };
  });
  const locations = film.words.map((word) => ({ name: word.name, node: word.node + 1 }));
  return { threads, locations, machine: view(at), before: view(at - 1) ?? null, buffered: true, firstNode: 0 };
}

function show(at) {
  now = Math.min(Math.max(at, 0), last);
  const frame = film.frames[now];
  machine.replaceChildren(...Array.from({ length: film.nodes }, (_, node) => nodeBox(node + 1, state(now))));
  what.replaceChildren(h("b", {}, `Step ${now} of ${last}`), `: ${frame.step?.what ?? "the beginning"}`,
    frame.step?.weak ? h("span", { class: "weak" }, ` \u2014 weak: ${frame.step.weak}`) : "",
    now === last && film.failure ? h("b", { class: "weak" }, ` \u2014 ${film.failure[1]}`) : "");
  outstanding.replaceChildren(...frame.outstanding.map((text) => h("li", {}, text)));
  if (frame.outstanding.length === 0) outstanding.replaceChildren(h("li", { class: "quiet" }, "nothing"));
  slider.value = now;
  drawing.now(now);
  [...steps.children].forEach((item, i) => (i === now - 1 ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current")));
  const current = steps.querySelector("[aria-current]");
  steps.scrollTop = current ? current.offsetTop - steps.offsetTop - 80 : 0;
  for (const [id, disabled] of [["back", now === 0], ["first", now === 0], ["forward", now === last], ["last", now === last],
    ["weak", !weakSteps.some((step) => step > now)]]) document.getElementById(id).disabled = disabled;
  document.body.dataset.step = now;
}

const nextWeak = () => show(weakSteps.find((at) => at > now) ?? now);
document.getElementById("main").append(
  h("section", { class: "panel", "aria-label": "Timeline" },
    h("div", { class: "bar" }, h("h2", {}, "Calls"), h("span", { class: "grow" }), scale.elements), lanes,
    h("p", { class: "legend" }, h("i", { class: "step" }), "a step of the thread or of its buffers", h("i", { class: "weak" }),
      "a weak step: sequentially consistent memory would show another value", h("i", { class: "pending" }), "has not returned")),
  h("div", { class: "bar", role: "toolbar", "aria-label": "Step" },
    button("first", "First", "The beginning (Home)", () => show(0)),
    button("back", "\u2190 Back", "One step back (left arrow)", () => show(now - 1)),
    slider,
    button("forward", "Forward \u2192", "One step on (right arrow)", () => show(now + 1)),
    button("weak", "Next weak step", "The next weak step (w)", nextWeak),
    button("last", "Last", "The end (End)", () => show(last))),
  what,
  h("div", { class: "workbench" }, machine,
    h("aside", {}, h("h2", {}, "Outstanding"), outstanding, h("h2", {}, "Steps"), steps)));
steps.append(...film.frames.slice(1).map((frame, at) =>
  h("li", {}, h("button", { type: "button", class: frame.step.weak ? "weak" : null, onclick: () => show(at + 1) }, frame.step.what))));
addEventListener("keydown", (event) => {
  if (["INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { ArrowRight: () => show(now + 1), ArrowLeft: () => show(now - 1), Home: () => show(0), End: () => show(last), w: nextWeak };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
addEventListener("resize", draw);
theme();
draw();
show(last);
