// The page: puts the editor and the views together, and keeps the whole state in the address.
import { Newest, ask, isStopped } from "./api.js";
import { Catalogue } from "./catalogue.js";
import { byId, copy, h, save, tabs } from "./dom.js";
import { Editor } from "./editor.js";
import { Machine } from "./machine.js";
import { Robustness } from "./robust.js";
import { pack, unpack } from "./share.js";
import { Verdicts } from "./verdicts.js";

const FIRST = { kind: "litmus", name: "SB3" };
const MODEL = `"A model of my own: rdma-tso with remote writes placed in any order"
requires empty WAIT as no-wait
include "rdma-tables.cat"
let oppo = oppo \\ (nrW * nrW)             (* cell G7 *)
let buffer = same-thread & (lW * lR)
let flush = nfo
include "rdma-axioms.cat"
`;
/** How long typing may pause before the text is read, in milliseconds. */
const PAUSE = 15;

class Page {
  kind = "litmus";
  #name = "test";
  #view = "verdicts";
  #parsing = { test: new Newest(), model: new Newest() };
  /** The texts that the parser last accepted: what is typed meanwhile is not asked about. */
  #accepted;
  #restored = null;

  constructor(state) {
    this.#accepted = { test: state.test, model: state.model ?? MODEL };
    this.editor = new Editor(byId("editor"), { ...this.#accepted },
      (which) => this.#typed(which), (position) => this.verdicts.explanation.at(position));
    this.verdicts = new Verdicts(this, byId("view-verdicts"), state.models ?? []);
    this.machine = new Machine(this, byId("view-machine"), state.machine, state.schedule, state.concrete);
    this.robustness = new Robustness(this, byId("view-robust"));
    this.catalogue = new Catalogue((entry, text) => this.#take(entry, text));
    this.#restored = state.question ?? null;
    this.showText = tabs(byId("text-tabs"), (id) => this.#showText(id));
    this.showView = tabs(byId("view-tabs"), (id) => this.#showView(id));
    this.showView(`tab-${state.view ?? "verdicts"}`);
    byId("open-catalogue").onclick = () => this.catalogue.open();
    byId("share").onclick = async () => {
      await this.#keep();
      copy(location.href, "Link");
    };
    byId("save-text").onclick = () => save(this.#file(), this.editor.text(this.editor.which), "text/plain");
    byId("save-json").onclick = () =>
      save(`${this.#name}.json`, JSON.stringify({ ...this.#state(), ...this.verdicts.answers }, null, 1), "application/json");
    addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        this.catalogue.open();
      }
    });
    this.#parse("test");
  }

  /** The texts that every question to the server is about. */
  source() {
    return { text: this.#accepted.test, model_text: this.#accepted.model };
  }

  /** The name of the test, for files. */
  name() {
    return this.#name;
  }

  /** Something that belongs into the address has changed. */
  changed() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.#keep(), 250);
  }

  /** Shows an execution on the machine. */
  async replay(setting, schedule) {
    this.showView("tab-machine");
    await this.machine.replay(setting, schedule);
  }

  /** Replaces the test. */
  replace(text) {
    this.showText("tab-test");
    this.editor.replace("test", text);
  }

  #file() {
    if (this.editor.which === "model") return "my.cat";
    return `${this.#name}.${this.kind === "client" ? "client" : "litmus"}`;
  }

  #take(entry, text) {
    if (entry.kind === "model") {
      this.showText("tab-model");
      this.editor.replace("model", text);
      return;
    }
    this.verdicts.explanation.clear();
    this.replace(text);
  }

  #showText(id) {
    this.editor.show(id === "tab-model" ? "model" : "test");
    byId("editor").setAttribute("aria-labelledby", id);
    this.#parse(this.editor.which);
  }

  #showView(id) {
    this.#view = id.replace("tab-", "");
    for (const view of ["verdicts", "machine", "robust"]) byId(`view-${view}`).hidden = view !== this.#view;
    this.editor.mark([]);
    if (this.#view === "machine") this.machine.show();
    if (this.#view === "robust") this.robustness.show();
    this.changed();
  }

  #typed(which) {
    const started = performance.now();
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.#parse(which, started), PAUSE);
  }

  async #parse(which, started) {
    const text = this.editor.text(which);
    let parsed;
    try {
      parsed = await ask("parse", { text, is_model: which === "model" }, this.#parsing[which].start());
    } catch (error) {
      if (!isStopped(error)) this.#problems([{ severity: "error", code: "", message: error.message, from: 0, to: 0 }]);
      return;
    }
    this.editor.inform(which, parsed);
    this.#problems(parsed.diagnostics);
    if (parsed.usable) this.#accepted[which] = text;
    if (which === "model") {
      if (parsed.usable && this.verdicts.chosen.includes("my.cat")) await this.#parse("test");
      return;
    }
    document.body.dataset.usable = parsed.usable;
    if (!parsed.usable) {
      this.verdicts.pause();
      return;
    }
    [this.kind, this.#name] = [parsed.kind, parsed.name ?? "test"];
    byId("test-name").textContent = this.#name;
    document.title = `${this.#name} \u2014 mowgli`;
    this.verdicts.update(parsed, started);
    this.machine.update(parsed);
    this.robustness.update(parsed);
    if (this.#restored) {
      this.verdicts.explanation.ask(this.#restored);
      this.#restored = null;
    }
    if (this.#view === "machine") this.machine.show();
    if (this.#view === "robust") this.robustness.show();
    this.changed();
  }

  #problems(diagnostics) {
    byId("problems").replaceChildren(...diagnostics.map((d) =>
      h("li", { class: d.severity }, h("button", { type: "button", onclick: () => this.editor.go(d) },
        h("b", {}, d.severity, d.code && ` ${d.code}`), " ", d.message, d.help && h("span", { class: "quiet" }, ` \u2014 ${d.help}`)))));
  }

  #state() {
    const model = this.editor.text("model");
    return {
      test: this.editor.text("test"), model: model === MODEL ? undefined : model, view: this.#view, models: this.verdicts.chosen,
      question: this.verdicts.explanation.question ?? undefined, machine: this.machine.setting, concrete: this.machine.concrete,
      schedule: this.machine.schedule,
    };
  }

  async #keep() {
    history.replaceState(null, "", `#${await pack(this.#state())}`);
  }
}

function theme() {
  const button = byId("theme");
  const set = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
  };
  set(matchMedia("(prefers-color-scheme: dark)").matches);
  button.onclick = () => set(button.getAttribute("aria-pressed") !== "true");
}

theme();
const shared = location.hash.length > 1 ? await unpack(location.hash) : null;
const state = typeof shared?.test === "string" ? shared : { test: (await ask("source", FIRST)).text };
const page = new Page(state);
addEventListener("hashchange", () => location.reload());
document.body.dataset.ready = "true";
export { page };
