// Shows `film`, an execution as loco_sim::Film has it, with the boxes of boxes.js.
const byId = (id) => document.getElementById(id);
const last = film.frames.length - 1;
const percent = (frame) => `${(100 * frame) / Math.max(1, last)}%`;
let now = 0;

function timeline() {
  const lanes = film.threads.map((thread, t) => {
    const calls = film.calls.filter((call) => call.thread === t);
    if (calls.length === 0 && film.failure?.[0] !== t) return null;
    const bars = calls.map((call) => {
      const to = call.to ?? last;
      const failed = call.to === null && film.failure?.[0] === t;
      const words = call.result === null ? call.what : `${call.what} \u2192 ${call.result}`;
      return h("button", {
        type: "button", class: `call${call.to === null ? " open" : ""}${failed ? " failed" : ""}`, title: words,
        style: `left: ${percent(call.from)}; width: max(1.2rem, calc(${percent(to)} - ${percent(call.from)}))`, onclick: () => show(call.from),
      }, words);
    });
    return h("div", { class: "row" }, h("b", { title: thread.name }, thread.name), h("div", { class: "lane" }, bars, h("div", { class: "now" })));
  });
  byId("timeline").append(...lanes.filter(Boolean));
}

/** The state of a frame, as nodeBox wants it. */
function state(at) {
  const frame = film.frames[at];
  const threads = film.threads.map((thread, t) => {
    const call = film.calls.findLast((c) => c.thread === t && c.from <= at && (c.to === null || c.to > at));
    return { name: thread.name, node: thread.node + 1, registers: [], doing: call ? call.what : null, waits: false };
  });
  const locations = film.words.map((word) => ({ name: word.name, node: word.node + 1 }));
  // Threads that the machine does not know yet have nothing in their buffers.
  const padded = (view) => view && {
    ...view,
    threads: film.threads.map((_, t) => view.threads[t] ?? { store_buffer: [], queue_pairs: [] }),
  };
  return { threads, locations, machine: padded(frame.machine), before: padded(film.frames[at - 1]?.machine ?? null), buffered: true };
}

function show(at) {
  now = Math.min(Math.max(at, 0), last);
  const frame = film.frames[now];
  byId("machine").replaceChildren(...Array.from({ length: film.nodes }, (_, node) => nodeBox(node + 1, state(now))));
  byId("what").replaceChildren(`Step ${now} of ${last}: ${frame.step?.what ?? "the beginning"}`,
    frame.step?.weak ? h("span", { class: "weak" }, ` \u2014 weak: ${frame.step.weak}`) : "",
    now === last && film.failure ? h("b", { class: "weak" }, ` \u2014 ${film.failure[1]}`) : "");
  byId("outstanding").replaceChildren(...frame.outstanding.map((text) => h("li", {}, text)));
  byId("step").value = now;
  for (const mark of document.querySelectorAll(".now")) mark.style.left = percent(now);
  [...byId("steps").children].forEach((item, i) => (i === now - 1 ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current")));
  const current = byId("steps").querySelector("[aria-current]");
  if (current) byId("steps").scrollTop = current.offsetTop - byId("steps").offsetTop - 60;
  byId("back").disabled = byId("first").disabled = now === 0;
  byId("forward").disabled = byId("last").disabled = now === last;
}

const nextWeak = () => {
  const found = film.frames.findIndex((frame, at) => at > now && frame.step?.weak);
  show(found < 0 ? now : found);
};
byId("steps").append(...film.frames.slice(1).map((frame, at) =>
  h("li", {}, h("button", { type: "button", class: frame.step.weak ? "weak" : null, onclick: () => show(at + 1) }, frame.step.what))));
byId("step").max = last;
byId("step").oninput = (event) => show(Number(event.target.value));
byId("first").onclick = () => show(0);
byId("back").onclick = () => show(now - 1);
byId("forward").onclick = () => show(now + 1);
byId("last").onclick = () => show(last);
byId("weak").onclick = nextWeak;
byId("weak").disabled = !film.frames.some((frame) => frame.step?.weak);
byId("theme").onclick = () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
};
addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT") return;
  const keys = { ArrowRight: () => show(now + 1), ArrowLeft: () => show(now - 1), Home: () => show(0), End: () => show(last), w: nextWeak };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.theme = "dark";
timeline();
show(last);
