// Small helpers to build the document. Used by every other file of the page.

import { h } from "./boxes.js";

export { h };

/** Returns the element with an id. */
export const byId = (id) => document.getElementById(id);

/** Says something to everybody, screen readers included, for a few seconds. */
export function say(text) {
  const status = byId("status");
  status.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (status.textContent = ""), 4000);
}

/** Saves a text or a blob as a file. */
export function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Copies a text, and says so. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    say(`the browser does not let the page copy: ${what.toLowerCase()} not copied`);
  }
}

/** Makes a row of tabs work: arrow keys move, `chosen` hears the id of the tab. */
export function tabs(list, chosen) {
  const all = [...list.querySelectorAll("[role=tab]")];
  const choose = (tab, focus) => {
    for (const other of all) {
      other.setAttribute("aria-selected", String(other === tab));
      other.tabIndex = other === tab ? 0 : -1;
    }
    if (focus) tab.focus();
    chosen(tab.id);
  };
  for (const tab of all) {
    tab.addEventListener("click", () => choose(tab, false));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(all[(all.indexOf(tab) + step + all.length) % all.length], true);
    });
  }
  return (id) => choose(all.find((tab) => tab.id === id) ?? all[0], false);
}
