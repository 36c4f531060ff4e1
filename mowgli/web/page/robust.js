// The view of robustness: whether a program is as strong as sequential consistency, why not, and what would mend it.
import { Newest, ask, isStopped } from "./api.js";
import { h } from "./dom.js";
import { Graph } from "./graph.js";

export class Robustness {
  #page;
  #newest = new Newest();
  #settings = [];
  #setting = "rdma-tso";
  #stale = true;
  #choice = h("select", { id: "robust-model", onchange: (event) => this.#choose(event.target.value) });
  #result = h("div", { "aria-live": "polite" });

  constructor(page, root) {
    this.#page = page;
    root.append(h("div", { class: "bar" }, h("label", { for: "robust-model" }, "Model "), this.#choice), this.#result);
  }

  #choose(setting) {
    this.#setting = setting;
    this.#stale = true;
    this.show();
  }

  /** The text has changed. */
  update(parsed) {
    this.#settings = parsed.settings.filter((s) => s.has_robustness && !s.not_applicable).map((s) => s.name);
    if (!this.#settings.includes(this.#setting)) this.#setting = this.#settings[0];
    this.#choice.replaceChildren(...this.#settings.map((name) => h("option", { selected: name === this.#setting }, name)));
    this.#stale = true;
  }

  /** The view is on the screen: asks if something has changed. */
  async show() {
    if (!this.#stale) return;
    if (!this.#setting) {
      this.#result.replaceChildren(h("p", {}, "Robustness is defined for litmus tests under rdma-sc, rdma-tso and rdma-wait."));
      return;
    }
    this.#stale = false;
    const stop = h("button", { type: "button", class: "stop", onclick: () => this.#newest.stop() }, "\u25a0 Stop");
    const late = setTimeout(() => this.#result.replaceChildren(h("p", {}, "Searching ", stop)), 200);
    try {
      const answer = await ask("robust", { ...this.#page.source(), setting: this.#setting }, this.#newest.start());
      clearTimeout(late);
      this.#answer(answer);
    } catch (error) {
      clearTimeout(late);
      this.#result.replaceChildren(h("p", { class: "problem" }, isStopped(error) ? "Stopped." : error.message));
    }
  }

  #answer(answer) {
    const good = answer.verdict.startsWith("robust");
    const condition = (c) =>
      h("tr", { tabindex: "0", onmouseenter: () => this.#page.editor.mark(c.instructions), onmouseleave: () => this.#page.editor.mark([]),
        onfocus: () => this.#page.editor.mark(c.instructions) },
        h("th", { scope: "row" }, c.name), h("td", { class: c.holds ? "allowed" : "forbidden" }, c.holds === null ? "?" : c.holds ? "yes" : "no"),
        h("td", {}, c.clause && h("b", {}, `${c.clause}: `), c.reason));
    const change = (c) => h("li", {}, `P${c.thread}: `, { added: "add ", "moved-here": "poll here: ", "moved-away": "no longer here: ", named: "name the operation: " }[c.kind], h("code", {}, c.instr));
    const { fix } = answer;
    const weak = answer.weak && new Graph(answer.weak, `${this.#page.name()}-weak`, answer.cycle, this.#page.editor);
    this.#result.replaceChildren(...[
      h("h2", {}, `Under ${answer.setting}: `, h("span", { class: `verdict ${good ? "allowed" : "forbidden"}` }, answer.verdict)),
      answer.limit && h("p", { class: "problem" }, `Unknown: ${answer.limit}.`),
      answer.conditions.length > 0 &&
        h("table", { class: "edges" }, h("caption", {}, "Conditions of Robust'25"), h("tbody", {}, answer.conditions.map(condition))),
      fix && h("section", { class: "fix" }, h("h3", {}, "What would mend it"),
        h("ul", {}, fix.changes.map(change)),
        fix.requests > 0 && h("p", {}, `${fix.requests} ${fix.requests === 1 ? "operation asks" : "operations ask"} for strong order, the fewest that do after these changes. `),
        h("p", {}, `Cost ${fix.cost}${fix.minimal ? ", the least by which the conditions hold" : ""}. `,
          h("button", { type: "button", class: "primary", id: "apply-fix", onclick: () => this.#page.replace(fix.text) }, "Apply to the text"))),
      answer.not_mended && h("p", {}, `Not mended: ${answer.not_mended}.`),
      weak && h("section", {}, h("h3", {}, "An execution that no sequentially consistent memory has"), h("p", {}, h("code", {}, answer.cycle)), weak.element),
    ].filter(Boolean));
  }
}
