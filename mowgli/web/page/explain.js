// Why an outcome is allowed or forbidden: a graph, the machine's steps, cycles edge by edge, and what would lift them.
import { Newest, ask, isStopped } from "./api.js";
import { h } from "./dom.js";
import { Graph } from "./graph.js";

export class Explanation {
  #page;
  #newest = new Newest();
  #question = null;
  #graph = null;
  answer = null;
  element = h("section", { class: "explanation", "aria-label": "Explanation", "aria-live": "polite" });

  constructor(page) {
    this.#page = page;
  }

  get question() {
    return this.#question;
  }

  /** Explains an outcome: `{ setting, formula }`, or `{ setting, query }` for a condition. */
  async ask(question) {
    this.#question = question;
    await this.refresh();
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** Forgets the question. */
  clear() {
    this.#question = null;
    this.#newest.stop();
    this.element.replaceChildren();
  }

  /** Asks again, since the text has changed. */
  async refresh() {
    if (!this.#question) return;
    const stop = h("button", { type: "button", class: "stop", onclick: () => this.#newest.stop() }, "\u25a0 Stop");
    const signal = this.#newest.start();
    const late = setTimeout(() => this.element.replaceChildren(h("p", {}, "Searching for executions ", stop)), 200);
    try {
      this.answer = await ask("explain", { ...this.#page.source(), ...this.#question }, signal);
      clearTimeout(late);
      this.#show();
    } catch (error) {
      clearTimeout(late);
      if (signal.aborted && this.#question && !isStopped(error)) return;
      this.answer = null;
      this.#graph = null;
      this.element.replaceChildren(h("p", { class: "problem" }, isStopped(error) ? "Stopped." : error.message));
    }
  }

  /** The cursor is at a position of the test. */
  at(position) {
    this.#graph?.at(position);
  }

  #show() {
    const { answer } = this;
    this.#graph = null;
    const verdict = answer.verdict ?? "unknown";
    const head = h("h2", {}, answer.title, " ", h("span", { class: `verdict ${verdict}` }, verdict));
    const limit = answer.limit && h("p", { class: "problem" }, `Not everything was searched: ${answer.limit}.`);
    const body = answer.words
      ? [h("pre", {}, answer.words), ...this.#pictures(answer).map((graph) => this.#draw(graph))]
      : answer.witness
        ? this.#witness(answer)
        : verdict === "forbidden"
          ? this.#forbidden(answer)
          : [];
    this.element.replaceChildren(...[head, limit, ...body].filter(Boolean));
  }

  /** The picture of an answer in words, if it has one. */
  #pictures(answer) {
    return [answer.witness, answer.cycles[0]?.graph].filter(Boolean);
  }

  #draw(graph) {
    this.#graph = new Graph(graph, this.#page.name(), this.answer.title, this.#page.editor);
    return this.#graph.element;
  }

  #witness(answer) {
    const replay = answer.schedule && h("button", {
      type: "button", class: "primary", id: "replay-witness",
      onclick: () => this.#page.replay(this.#question.setting, answer.schedule),
    }, `Replay on the machine, ${answer.schedule.length} steps`);
    return [h("p", {}, "An execution that the model accepts. ", replay), this.#draw(answer.witness)];
  }

  #forbidden(answer) {
    if (answer.cycles.length === 0) {
      return [h("p", {}, answer.without_cycle)];
    }
    const place = h("div");
    const show = (at) => {
      const cycle = answer.cycles[at];
      const drawn = this.#draw(cycle.graph);
      const row = (edge) =>
        h("tr", {}, h("td", {}, this.#graph.name(edge.from)), h("td", {}, edge.relation, edge.cell && h("b", {}, ` ${edge.cell}`)),
          h("td", {}, this.#graph.name(edge.to)), h("td", {}, edge.reason));
      place.replaceChildren(
        h("p", {}, cycle.axiom ? `It violates ${cycle.axiom}. ` : cycle.broken ? `${cycle.broken.replace(/\.$/, "")}. ` : "", `${cycle.candidates} of ${answer.candidates} candidate executions have this cycle.`),
        drawn,
        cycle.edges.length > 0 && h("table", { class: "edges" }, h("caption", {}, "The cycle, edge by edge"),
          h("thead", {}, h("tr", {}, ["from", "by", "to", "because"].map((word) => h("th", { scope: "col" }, word)))),
          h("tbody", {}, cycle.edges.map(row))) || "");
      for (const button of choice.children) button.setAttribute("aria-pressed", String(Number(button.dataset.cycle) === at));
    };
    const choice = h("div", { class: "bar", role: "group", "aria-label": "Cycles" }, answer.cycles.map((_, at) =>
      h("button", { type: "button", "data-cycle": at, onclick: () => show(at) }, `cycle ${at + 1}`)));
    show(0);
    const list = (title, changes) => changes.length > 0 && h("section", {}, h("h3", {}, title), h("ul", {}, changes.map((c) => h("li", {}, c))));
    return [
      h("p", {}, answer.limit ? `Each of the ${answer.candidates} executions looked at that would have this outcome ${answer.cycles[0].broken ? "breaks a rule" : "has a cycle"}.`
        : answer.cycles[0].broken ? "Every candidate that would have this outcome breaks a rule." : "Every execution that would have this outcome has a cycle.",
        answer.cycles_total > answer.cycles.length && ` The first ${answer.cycles.length} of ${answer.cycles_total} are here.`),
      answer.cycles.length > 1 && choice, place,
      list("Any one of these would allow it", answer.relaxations), list("Left open by a limit", answer.undecided),
    ].filter(Boolean);
  }
}
