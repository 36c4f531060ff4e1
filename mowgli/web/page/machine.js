// The machine: nodes with their threads, store buffers, network cards and memory, and the steps that can happen next.
//
// A state is named by the numbers of the steps that lead to it, so that going back is leaving out the last one.
import { Newest, ask, isStopped } from "./api.js";
import { nodeBox } from "./boxes.js";
import { copy, h, save, say } from "./dom.js";

const ENDS = {
  final: "The end: every thread is done and every buffer is empty.",
  stuck: "Stuck: some thread waits for what can no longer happen.",
  discarded: "An assumption failed: this execution does not count.",
  "loop-bound": "A loop would need more iterations than its bound.",
};

/** The state as text. */
export function asText(state) {
  const list = (entries) => entries.map((e) => `${e.text} [${e.stage}]`).join(", ") || "-";
  const lines = [];
  state.threads.forEach((thread, t) => {
    const { store_buffer, queue_pairs } = state.machine.threads[t];
    const registers = thread.registers.map(([name, value]) => `${name}=${value}`).join(" ");
    lines.push(`${thread.name} on node ${thread.node}: ${thread.next ? "running" : "ended"}  ${registers}`.trimEnd());
    lines.push(`  store buffer: ${list(store_buffer)}`);
    for (const qp of queue_pairs) {
      lines.push(`  queue pair to node ${qp.peer + 1}: ${list(qp.pipe)}`);
      if (qp.parts) lines.push(`    its buffers: ${qp.parts.map((part) => `${part.name} ${part.entries}`).join(", ")}`);
      lines.push(`    at node ${qp.peer + 1}, not placed: ${list(qp.remote_writes)}`);
      lines.push(`    back at node ${thread.node}: ${list(qp.local_writes)}`);
    }
  });
  lines.push(`memory: ${state.locations.map((l, at) => `${l.name}@${l.node}=${state.machine.memory[at]}`).join(" ")}`);
  return [...state.steps.map((step, at) => `${String(at + 1).padStart(3)}  ${step.text}`), "", ...lines, ""].join("\n");
}

export class Machine {
  #page;
  #newest = new Newest();
  #settings = [];
  #setting = "rdma-tso";
  #schedule = [];
  #later = [];
  #state = null;
  #text = null;
  #choice = h("select", { id: "machine-model", onchange: (event) => this.#start(event.target.value) });
  #concrete = h("input", { type: "checkbox", id: "machine-concrete", onchange: () => this.#go([], []) });
  #nodes = h("div", { class: "machine", role: "group", "aria-label": "Machine" });
  #steps = h("div", { class: "steps" });
  #past = h("ol", { class: "past", "aria-label": "Steps so far" });
  #note = h("p", { class: "note", "aria-live": "polite" });

  constructor(page, root, setting, schedule, concrete) {
    this.#page = page;
    this.#setting = setting ?? this.#setting;
    this.#schedule = schedule ?? [];
    this.#concrete.checked = concrete ?? false;
    const button = (id, text, title, onclick) => h("button", { type: "button", id, title, onclick }, text);
    root.append(
      h("div", { class: "bar", role: "toolbar", "aria-label": "Machine" },
        h("label", { for: "machine-model" }, "Model "), this.#choice,
        h("label", { title: "Queue pairs as in RDMA-TSO'24 Figs. 6 to 8; otherwise the simplified ones, with three" }, this.#concrete, " six buffers"),
        button("restart", "Restart", "Back to the beginning", () => this.#go([], [...this.#schedule, ...this.#later])),
        button("back", "\u2190 Back", "One step back (Backspace)", () => this.back()),
        button("forward", "Forward \u2192", "One step of what was taken back, or of a replay", () => this.forward()),
        button("random", "Random step", "A step at random (r)", () => this.#random(1)),
        button("finish", "Run to the end", "Random steps to the end", () => this.#random(10000)),
        h("span", { class: "grow" }),
        button("copy-state", "Copy state", "The state as text", () => copy(asText(this.#state), "State")),
        button("save-state", "JSON", "The state as JSON", () => save(`${page.name()}-state.json`, JSON.stringify(this.#state, null, 1), "application/json"))),
      this.#note,
      h("div", { class: "workbench" }, this.#nodes,
        h("aside", {}, h("h3", {}, "What can happen next"), this.#steps, h("h3", {}, "So far"), this.#past)));
    root.addEventListener("keydown", (event) => this.#key(event));
    root.tabIndex = -1;
  }

  get setting() {
    return this.#setting;
  }

  get concrete() {
    return this.#concrete.checked;
  }

  get schedule() {
    return this.#schedule;
  }

  /** The text has changed: its executions are others. */
  update(parsed) {
    const fit = parsed.settings.filter((s) => s.has_machine && !s.not_applicable);
    this.#settings = fit.map((s) => s.name);
    const usual = fit.filter((s) => !s.tier).at(-1) ?? fit.at(-1);
    if (usual && !this.#settings.includes(this.#setting)) this.#setting = usual.name;
    this.#choice.replaceChildren(...this.#settings.map((name) => h("option", { selected: name === this.#setting }, name)));
    const { text } = this.#page.source();
    if (this.#text !== null && this.#text !== text) [this.#schedule, this.#later] = [[], []];
    this.#text = text;
    this.#state = null;
  }

  /** The view is on the screen. */
  async show() {
    if (!this.#state) await this.#go(this.#schedule, this.#later);
  }

  /** Starts a replay: the steps are taken one by one with Forward. */
  async replay(setting, schedule) {
    this.#setting = setting;
    this.#choice.value = setting;
    this.#concrete.checked = false;
    await this.#go([], schedule);
    say(`${schedule.length} steps to replay: Forward takes the next`);
  }

  async back() {
    if (this.#schedule.length) await this.#go(this.#schedule.slice(0, -1), [this.#schedule.at(-1), ...this.#later]);
  }

  async forward() {
    if (this.#later.length) await this.#go([...this.#schedule, this.#later[0]], this.#later.slice(1));
  }

  #start(setting) {
    this.#setting = setting;
    this.#go([], []);
  }

  #take(number) {
    const same = this.#later[0] === number;
    return this.#go([...this.#schedule, number], same ? this.#later.slice(1) : []);
  }

  #random(count) {
    const seed = crypto.getRandomValues(new Uint32Array(1))[0];
    return this.#go(this.#schedule, [], { random: count, seed });
  }

  #key(event) {
    if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const number = Number(event.key) - 1;
    if (event.key === "Backspace") this.back();
    else if (event.key === "r") this.#random(1);
    else if (event.key >= "1" && event.key <= "9" && number < this.#state?.enabled.length) this.#take(number);
    else return;
    event.preventDefault();
  }

  async #go(schedule, later, more = {}) {
    if (this.#settings.length === 0) {
      this.#nodes.replaceChildren(h("p", {}, "The machine runs tests of RDMA. Clients of libraries and tests of coreRMA have none."));
      return;
    }
    try {
      const asked = { ...this.#page.source(), setting: this.#setting, concrete: this.#concrete.checked, schedule, ...more };
      this.#state = await ask("machine", asked, this.#newest.start());
    } catch (error) {
      if (!isStopped(error)) this.#note.textContent = error.message;
      return;
    }
    [this.#schedule, this.#later] = [this.#state.schedule, later];
    this.#draw();
    this.#page.changed();
  }

  #draw() {
    const state = this.#state;
    const hadFocus = this.#steps.contains(document.activeElement) || this.#nodes.contains(document.activeElement);
    this.#nodes.replaceChildren(...Array.from({ length: state.nodes }, (_, node) => this.#node(node + 1)));
    this.#steps.replaceChildren(...state.enabled.map((step, at) =>
      h("button", {
        type: "button", class: `step ${step.actor}${this.#later[0] === at ? " next" : ""}`, "data-step": at,
        onclick: () => this.#take(at), onmouseenter: () => this.#point(at), onmouseleave: () => this.#point(null),
        onfocus: () => this.#point(at), onblur: () => this.#point(null),
      }, h("kbd", {}, String(at + 1)), " ", step.text)));
    if (state.enabled.length === 0) this.#steps.replaceChildren(h("p", { class: "quiet" }, "Nothing."));
    this.#past.replaceChildren(...state.steps.map((step, at) =>
      h("li", {}, h("button", {
        type: "button", class: step.actor,
        onclick: () => this.#go(this.#schedule.slice(0, at + 1), [...this.#schedule.slice(at + 1), ...this.#later]),
      }, step.text))));
    this.#past.scrollTop = this.#past.scrollHeight;
    const outcome = state.outcome?.map(([name, value]) => `${name}=${value}`).join("  ");
    this.#note.replaceChildren(...[
      ENDS[state.end] ?? `Step ${state.steps.length}${this.#later.length ? `, ${this.#later.length} to replay` : ""}.`,
      outcome && h("code", {}, ` ${outcome} `),
      ...state.satisfied.map((formula) => h("b", {}, ` This is the outcome asked about: ${formula}`)),
    ].filter(Boolean));
    this.#page.editor.mark(state.threads.map((t) => t.next).filter(Boolean));
    if (hadFocus) (this.#steps.querySelector("button") ?? this.#nodes.closest("[role=tabpanel]")).focus();
    document.getElementById("back").disabled = this.#schedule.length === 0;
    document.getElementById("forward").disabled = this.#later.length === 0;
  }

  /** Points at the entry that a step concerns. */
  #point(step) {
    for (const box of this.#nodes.querySelectorAll("[data-steps]")) {
      box.classList.toggle("pointed", step !== null && box.dataset.steps.split(" ").includes(String(step)));
    }
  }

  /** The steps that concern a box: a button for each, inside the box. */
  #within(matches) {
    const found = this.#state.enabled.flatMap((step, at) => (matches(step) ? [at] : []));
    const button = (at) =>
      h("button", {
        type: "button", class: "do", "data-do": at, title: this.#state.enabled[at].text, "aria-label": this.#state.enabled[at].text,
        onclick: () => this.#take(at),
      }, "\u25b6");
    return [found.join(" "), found.map(button)];
  }

  #node(node) {
    const state = this.#state;
    const text = this.#page.source().text;
    const threads = state.threads.map((thread, t) => {
      const acts = state.enabled.some((step) => step.thread === t && step.actor === "cpu");
      return {
        ...thread,
        doing: thread.next ? text.slice(thread.next.from, thread.next.to).trim() : null,
        waits: Boolean(thread.next) && !acts,
      };
    });
    const shown = { ...state, threads, buffered: !this.#setting.match(/^(sc|rdma-sc)/) };
    return nodeBox(node, shown, (matches) => this.#within(matches));
  }
}
