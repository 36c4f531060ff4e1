// The catalogue: a dialog with everything that is built in, by paper and family, to be searched.
import { ask } from "./api.js";
import { byId, h, say } from "./dom.js";

const KIND = { litmus: "test", corerma: "test of coreRMA", client: "client", model: "model file" };

export class Catalogue {
  #entries = null;
  #chosen;

  /** `chosen(entry, text)` hears what the user takes. */
  constructor(chosen) {
    this.#chosen = chosen;
    byId("catalogue-search").addEventListener("input", () => this.#show());
    byId("catalogue").addEventListener("keydown", (event) => this.#move(event));
  }

  async open() {
    byId("catalogue").showModal();
    byId("catalogue-search").select();
    try {
      this.#entries ??= await ask("catalogue");
      this.#show();
    } catch (error) {
      say(error.message);
    }
  }

  #show() {
    if (!this.#entries) return;
    const words = byId("catalogue-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (e) => `${e.name} ${e.folder} ${KIND[e.kind]} ${e.description}`.toLowerCase();
    const found = this.#entries.filter((e) => words.every((word) => text(e).includes(word)));
    const folders = Map.groupBy
      ? Map.groupBy(found, (e) => e.folder)
      : found.reduce((map, e) => map.set(e.folder, [...(map.get(e.folder) ?? []), e]), new Map());
    const none = h("p", { class: "quiet" }, "Nothing built in has all these words.");
    byId("catalogue-list").replaceChildren(...(found.length ? [] : [none]), ...[...folders].map(([folder, entries]) =>
        h("section", { role: "group", "aria-label": folder },
          h("h3", {}, `${folder} `, h("span", { class: "quiet" }, String(entries.length))),
          entries.map((e) =>
            h("button", { type: "button", role: "option", class: "entry", "data-name": e.name, onclick: () => this.#take(e) },
              h("b", {}, e.name), " ", h("span", { class: "quiet" }, e.description))))));
  }

  #move(event) {
    const all = [...byId("catalogue-list").querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    if (event.key === "ArrowDown") (all[at + 1] ?? all[0])?.focus();
    else if (event.key === "ArrowUp") (all[at - 1] ?? byId("catalogue-search")).focus();
    else if (event.key === "Enter" && at < 0 && all.length) all[0].click();
    else return;
    event.preventDefault();
  }

  async #take(entry) {
    try {
      const { text } = await ask("source", { kind: entry.kind, name: entry.name });
      byId("catalogue").close();
      this.#chosen(entry, text);
    } catch (error) {
      say(error.message);
    }
  }
}
