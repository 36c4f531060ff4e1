// Execution graphs: a picture whose events and the instructions of the text highlight one another.
import { h } from "./dom.js";
import { picture } from "./picture.js";

const holds = (range, position) => range && range.from <= position && position <= range.to;

export class Graph {
  #events;
  #boxes;
  #editor;

  /** `graph` is as the server sends it. */
  constructor(graph, name, title, editor) {
    this.#events = graph.events;
    this.#editor = editor;
    const { drawing, element } = picture(graph.svg, name, title);
    this.element = element;
    this.#boxes = [...drawing.querySelectorAll("g.event")];
    for (const box of this.#boxes) {
      const event = this.#events[Number(box.dataset.event)];
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "button");
      box.setAttribute("aria-label", `${event.thread ?? "memory"}: ${event.label}${event.kind && `, ${event.kind}`}`);
      box.append(Object.assign(document.createElementNS("http://www.w3.org/2000/svg", "title"), { textContent: event.kind }));
      const over = () => this.#over(event);
      box.addEventListener("mouseenter", over);
      box.addEventListener("focus", over);
      box.addEventListener("mouseleave", () => this.clear());
      box.addEventListener("blur", () => this.clear());
      box.addEventListener("click", () => event.instruction && this.#editor.go(event.instruction));
      box.addEventListener("keydown", (key) => {
        if (key.key === "Enter" && event.instruction) this.#editor.go(event.instruction);
      });
    }
  }

  #over(event) {
    this.#light((e) => e === event || (event.instruction && e.instruction?.from === event.instruction.from));
    this.#editor.mark(event.instruction ? [event.instruction] : []);
  }

  #light(wanted) {
    for (const box of this.#boxes) box.classList.toggle("lit", Boolean(wanted(this.#events[Number(box.dataset.event)])));
  }

  /** Highlights the events of the instruction at a position of the text. */
  at(position) {
    this.#light((event) => holds(event.instruction, position));
  }

  /** Highlights nothing. */
  clear() {
    this.#light(() => false);
    this.#editor.mark([]);
  }

  /** Returns the name of an event with its thread. */
  name(event) {
    const { thread, label } = this.#events[event];
    return h("code", {}, thread ? `${thread}: ${label}` : label);
  }
}
