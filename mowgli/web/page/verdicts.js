// The view of verdicts: conditions and outcomes under the chosen models, side by side, while the text changes.
import { Newest, ask, isStopped } from "./api.js";
import { h } from "./dom.js";
import { Explanation } from "./explain.js";

/** What a model says about an outcome. */
const SAYS = {
  allowed: { sign: "\u2713", class: "allowed" },
  forbidden: { sign: "\u2715", class: "forbidden" },
  unknown: { sign: "?", class: "unknown" },
};

export class Verdicts {
  #page;
  #root;
  #settings = [];
  #chosen = [];
  #answers = new Map();
  #running = new Map();
  #conditions = [];
  #explanation;
  #tiersOpen = false;
  #models = h("fieldset", { class: "models" });
  #tables = h("div", { class: "tables" });

  constructor(page, root, chosen) {
    this.#page = page;
    this.#root = root;
    this.#chosen = chosen;
    this.#explanation = new Explanation(page);
    root.append(this.#models, this.#tables, this.#explanation.element);
  }

  get chosen() {
    return this.#chosen;
  }

  get answers() {
    return { verdicts: [...this.#answers.values()], explanation: this.#explanation.answer };
  }

  get explanation() {
    return this.#explanation;
  }

  /** The text has changed, and this is what the parser says. */
  update(parsed, started) {
    this.#settings = parsed.settings;
    this.#conditions = parsed.conditions;
    const names = parsed.settings.filter((s) => !s.not_applicable).map((s) => s.name);
    if (!this.#chosen.some((name) => names.includes(name))) {
      const usual = ["rdma-sc", "rdma-tso", "rdma-tso-nopcie", "corerma", "corerma-ib", "spec", "paper-ring"].filter((name) => names.includes(name));
      const fits = parsed.settings.filter((s) => !s.not_applicable && (s.has_machine || parsed.kind !== "litmus"));
      this.#chosen = usual.length ? usual : fits.slice(0, 3).map((s) => s.name);
    }
    this.#showModels();
    this.#check(started);
    this.#explanation.refresh();
  }

  /** Forgets everything: the text cannot be used. */
  pause() {
    this.#running.forEach((newest) => newest.stop());
    this.#running.clear();
    this.#tables.classList.add("stale");
  }

  #showModels() {
    const choice = (s) =>
      h("label", { title: s.not_applicable ?? s.summary, class: s.not_applicable ? "off" : null },
        h("input", {
          type: "checkbox", "data-setting": s.name, checked: this.#chosen.includes(s.name), disabled: Boolean(s.not_applicable),
          onchange: (event) => {
            const others = this.#chosen.filter((name) => name !== s.name);
            this.#chosen = event.target.checked ? [...others, s.name] : others;
            this.#check();
            this.#page.changed();
          },
        }), s.name);
    const on = (tier) => this.#settings.filter((s) => (s.tier ?? null) === tier);
    const tiers = [...new Set(this.#settings.map((s) => s.tier).filter(Boolean))];
    const open = this.#tiersOpen || this.#settings.some((s) => s.tier && this.#chosen.includes(s.name) && !s.not_applicable);
    this.#models.replaceChildren(h("legend", {}, "Models"), ...on(null).map(choice),
      ...(tiers.length
        ? [h("details", { class: "tiers", open, ontoggle: (event) => { this.#tiersOpen = event.target.open; } },
            h("summary", {}, "Networks that order less"),
            tiers.map((tier) => h("div", { "data-tier": tier }, h("b", {}, tier), on(tier).map(choice))))]
        : []));
  }

  /** Asks for every chosen model. */
  #check(started) {
    this.#running.forEach((newest) => newest.stop());
    this.#running.clear();
    this.#answers.clear();
    const wanted = this.#settings.filter((s) => this.#chosen.includes(s.name) && !s.not_applicable);
    const source = this.#page.source();
    for (const { name } of wanted) {
      const newest = new Newest();
      this.#running.set(name, newest);
      ask("check", { ...source, setting: name }, newest.start())
        .then((answer) => this.#answers.set(name, answer))
        .catch((error) => this.#answers.set(name, { setting: name, error: isStopped(error) ? "stopped" : error.message }))
        .finally(() => {
          if (this.#running.get(name) !== newest) return;
          this.#running.delete(name);
          this.#show(wanted);
          if (started !== undefined && !performance.getEntriesByName(`verdict ${started}`).length) {
            performance.measure(`verdict ${started}`, { start: started, end: performance.now() });
          }
        });
    }
    // What was there stays until the first answer is, or until it takes long.
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#running.size && this.#show(wanted), 150);
  }

  /** Stops a search, or all. */
  #stop(name) {
    this.#running.get(name)?.stop();
  }

  #show(wanted) {
    this.#tables.classList.remove("stale");
    this.#tables.replaceChildren(this.#conditionTable(wanted), this.#outcomeTable(wanted));
  }

  #heading({ name }) {
    const answer = this.#answers.get(name);
    const running = this.#running.has(name);
    const detail = running
      ? h("button", { type: "button", class: "stop", onclick: () => this.#stop(name), "aria-label": `Stop ${name}` }, "\u25a0 Stop")
      : answer?.error
        ? h("span", { class: "problem" }, answer.error)
        : answer?.not_applicable
          ? h("span", { class: "quiet" }, "n/a")
          : h("span", { class: "quiet" }, `${answer.count} ${answer.searched}, ${answer.time_ms.toFixed(1)} ms`,
              answer.limit && h("span", { class: "problem" }, ` \u2014 ${answer.limit}`));
    return h("th", { scope: "col", "data-setting": name }, h("div", {}, name), h("small", {}, running ? "searching " : "", detail));
  }

  #conditionTable(wanted) {
    const cell = (at) => ({ name }) => {
      const found = this.#answers.get(name)?.conditions?.[at];
      if (!found) return h("td", { class: "quiet" }, this.#running.has(name) ? "\u2026" : "");
      const word = found.verdict ?? "unknown";
      const wrong = found.as_stated === false;
      return h("td", {},
        h("button", {
          type: "button", class: `verdict ${word}`, "data-setting": name, "data-condition": at,
          title: found.stated ? `the test states: ${found.stated}` : "explain",
          onclick: () => this.#explain({ setting: name, query: at }),
        }, word, wrong && h("b", { class: "problem" }, " \u2260 ", found.stated)));
    };
    return h("table", { class: "conditions" }, h("caption", {}, "Conditions"),
      h("thead", {}, h("tr", {}, h("td"), wanted.map((s) => this.#heading(s)))),
      h("tbody", {}, this.#conditions.map((condition, at) =>
        h("tr", {}, h("th", { scope: "row" }, h("code", {}, condition.condition)), wanted.map(cell(at))))));
  }

  #outcomeTable(wanted) {
    const answers = wanted.map((s) => this.#answers.get(s.name)).filter((a) => a?.rows);
    const columns = answers.find((a) => a.columns.length)?.columns ?? [];
    const rows = new Map();
    for (const answer of answers) for (const row of answer.rows) rows.set(JSON.stringify(row), row);
    const sorted = [...rows.values()].sort((a, b) => {
      const at = a.findIndex((value, i) => value !== b[i]);
      return at < 0 ? 0 : (Number(a[at]) - Number(b[at]) || String(a[at]).localeCompare(b[at]));
    });
    const sets = new Map(answers.map((a) => [a.setting, new Set(a.rows.map((row) => JSON.stringify(row)))]));
    const isTest = this.#page.kind !== "client";
    const cell = (row) => ({ name }) => {
      const answer = this.#answers.get(name);
      if (!answer?.rows || answer.not_applicable) return h("td");
      const has = sets.get(name).has(JSON.stringify(row));
      const says = SAYS[has ? "allowed" : answer.limit || answer.total > answer.rows.length ? "unknown" : "forbidden"];
      const formula = columns.map((column, i) => `${column}=${row[i]}`).join(" /\\ ");
      const label = `${says.class} under ${name}`;
      if (!isTest) return h("td", { class: says.class, "aria-label": label }, says.sign);
      return h("td", {},
        h("button", {
          type: "button", class: `sign ${says.class}`, "aria-label": `${label}: explain ${formula}`, "data-setting": name,
          "data-outcome": formula, onclick: () => this.#explain({ setting: name, formula }),
        }, says.sign));
    };
    const total = Math.max(0, ...answers.map((a) => a.total));
    return h("table", { class: "outcomes" },
      h("caption", {}, `Outcomes: ${sorted.length} under some model`, total > sorted.length && ` (of ${total}, the first are shown)`,
        isTest && h("span", { class: "quiet" }, " \u2014 choose one to see why")),
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column)),
        wanted.map((s) => h("th", { scope: "col", class: "model" }, s.name)))),
      h("tbody", {}, sorted.slice(0, 500).map((row) =>
        h("tr", {}, row.map((value) => h("td", { class: "value" }, value)), wanted.map(cell(row))))));
  }

  #explain(question) {
    this.#explanation.ask(question);
    this.#page.changed();
  }
}
