// A picture that can be moved and magnified, with relations that can be hidden, and saved as SVG or PNG.
import { h, save, say } from "./dom.js";

const RELATIONS = {
  po: "program order", rf: "reads-from", mo: "modification order", pf: "polls-from", nfo: "NIC flush order",
  rao: "order of atomics", show: "shown by the model file", cycle: "the cycle",
};

/** Turns a picture of the server into an element. Pictures are made by this program, from names and numbers. */
function parse(svg) {
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  // Arrow heads are found by id in the whole document, where a hidden picture may have others of that name.
  parse.count = (parse.count ?? 0) + 1;
  for (const marker of picture.querySelectorAll("marker")) marker.id += `-${parse.count}`;
  for (const arrow of picture.querySelectorAll("[marker-end]")) {
    arrow.setAttribute("marker-end", arrow.getAttribute("marker-end").replace(")", `-${parse.count})`));
  }
  return document.importNode(picture, true);
}

async function png(svg, width, height) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = h("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Shows a picture. `name` is for files, `label` for screen readers. */
export function picture(svg, name, label) {
  const drawing = parse(svg);
  const [width, height] = ["width", "height"].map((side) => Number(drawing.getAttribute(side)));
  let box = { x: 0, y: 0, width, height };
  const show = () => drawing.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`);
  const zoom = (factor, x = box.x + box.width / 2, y = box.y + box.height / 2) => {
    const to = Math.min(Math.max(box.width / factor, width / 8), width * 4);
    const ratio = to / box.width;
    box = { x: x - (x - box.x) * ratio, y: y - (y - box.y) * ratio, width: to, height: box.height * ratio };
    show();
  };
  const move = (x, y) => {
    box = { ...box, x: box.x + x, y: box.y + y };
    show();
  };
  const fit = () => {
    box = { x: 0, y: 0, width, height };
    show();
  };
  const inPicture = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  drawing.setAttribute("role", "group");
  drawing.setAttribute("aria-label", label);
  drawing.setAttribute("tabindex", "0");
  drawing.style.maxWidth = `${width}px`;
  drawing.removeAttribute("width");
  drawing.removeAttribute("height");
  drawing.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, ...inPicture(event));
  }, { passive: false });
  drawing.addEventListener("pointerdown", (event) => {
    let last = inPicture(event);
    const moved = (next) => {
      const [x, y] = inPicture(next);
      move(last[0] - x, last[1] - y);
      last = inPicture(next);
    };
    const up = () => {
      removeEventListener("pointermove", moved);
      removeEventListener("pointerup", up);
    };
    addEventListener("pointermove", moved);
    addEventListener("pointerup", up);
  });
  drawing.addEventListener("keydown", (event) => {
    const far = box.width / 10;
    const keys = {
      "+": () => zoom(1.25), "-": () => zoom(0.8), 0: fit, ArrowLeft: () => move(-far, 0), ArrowRight: () => move(far, 0),
      ArrowUp: () => move(0, -far), ArrowDown: () => move(0, far),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const present = Object.keys(RELATIONS).filter((relation) => drawing.querySelector(`path.arrow.${relation}`));
  const toggle = (relation) =>
    h("label", { class: `relation ${relation}`, title: RELATIONS[relation] },
      h("input", {
        type: "checkbox", checked: true, "data-relation": relation,
        onchange: (event) => drawing.classList.toggle(`hide-${relation}`, !event.target.checked),
      }), relation);
  const button = (text, title, onclick) => h("button", { type: "button", title, "aria-label": title, onclick }, text);
  return {
    drawing,
    element: h("figure", { class: "picture" },
      h("div", { class: "bar", role: "toolbar", "aria-label": "Picture" },
        present.map(toggle), h("span", { class: "grow" }),
        button("+", "Magnify", () => zoom(1.25)), button("\u2212", "Make smaller", () => zoom(0.8)), button("Fit", "Fit", fit),
        button("SVG", "Save as SVG", () => save(`${name}.svg`, svg, "image/svg+xml")),
        button("PNG", "Save as PNG", async () => {
          try {
            save(`${name}.png`, await png(svg, width, height));
          } catch {
            say("the browser cannot draw the picture as PNG");
          }
        })),
      h("div", { class: "paper" }, drawing)),
  };
}
