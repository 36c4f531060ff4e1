// Draws calls of objects as a timeline: a row a thread, a bar a call. Films and histories have it. Needs boxes.js before it.

const ROW = 38, BAR = 24, TOP = 22, LEVEL = 26, LETTER = 7.3, SVG = "http://www.w3.org/2000/svg";

/** Makes an element of a drawing. */
function drawn(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Maps times to horizontal positions. By the order of events, every overlap is wide enough to be seen and (nearly) every bar for its words;
 * times between two events lie between them in proportion.
 */
function positions({ bars, last, scale, zoom, width }) {
  const times = new Set([0, last]);
  for (const bar of bars) for (const time of [bar.from, bar.to]) if (time !== null) times.add(time);
  const sorted = [...times].sort((a, b) => a - b);
  if (scale === "time") {
    const all = Math.max(width, 200) * zoom;
    return { at: (time) => 8 + (time / Math.max(1, last)) * (all - 16), all };
  }
  const rank = new Map(sorted.map((time, i) => [time, i]));
  let step = Math.max(40, width / sorted.length);
  for (const bar of bars) {
    const events = rank.get(bar.to ?? last) - rank.get(bar.from);
    step = Math.max(step, Math.min(150, (bar.text.length * LETTER + 10) / Math.max(1, events)));
  }
  const place = (time) => {
    if (rank.has(time)) return rank.get(time);
    const next = sorted.findIndex((other) => other > time);
    if (next < 0) return sorted.length - 1;
    if (next === 0) return 0;
    return next - 1 + (time - sorted[next - 1]) / (sorted[next] - sorted[next - 1]);
  };
  const all = Math.max(200, sorted.length * step * zoom);
  return { at: (time) => 8 + (place(time) / Math.max(1, sorted.length - 1)) * (all - 16), all };
}

/** The choice of scale and magnification. `changed` hears of both. `time` is the name of the scale by time. */
export function scales(time, changed) {
  const scale = h("select", { id: "scale", onchange: changed }, h("option", { value: "events" }, "order of events"), h("option", { value: "time" }, time));
  const zoom = h("input", { type: "range", id: "zoom", min: -3, max: 4, step: 0.25, value: 0, oninput: changed });
  return {
    elements: [h("label", {}, "Scale ", scale), h("label", {}, "Zoom ", zoom)],
    chosen: () => ({ scale: scale.value, zoom: 2 ** Number(zoom.value) }),
  };
}

/**
 * Draws a timeline into `root`. `what` has
 * - `label`: for screen readers; `rows`: names of threads; `last`: the time of the end;
 * - `bars`: `row`, `from`, `to` (null: no end), `text`, `about` (all of it, in lines), `kind` (classes), calls in no special order;
 * - `choose`: hears the number of a bar that is clicked; `point`: of one that is pointed at; `go`: hears a time that is clicked;
 * - `scale`, `zoom`: as `scales` has them;
 * - `path`: numbers of bars in the order in which they take effect, to be drawn; `wall`: a time and its words;
 * - `ticks`: marks on rows, with `row`, `at`, `kind`, `text`; `levels`: a number at each time from 0, and `levelsName`.
 * Returns `now`, which moves the mark of the present, and `reveal`, which scrolls to a time.
 */
export function timeline(root, what) {
  const { at, all } = positions({ ...what, width: Math.max(300, root.clientWidth - 190) });
  const end = all + 24;
  const levels = what.levels ? LEVEL : 0;
  const height = TOP + what.rows.length * ROW + levels + 14;
  const top = (row) => TOP + row * ROW;
  const svg = drawn("svg", { width: end, height, role: "group", "aria-label": what.label, onclick: (event) => {
    if (event.target.closest(".bar") || !what.go) return;
    // The time at a place is searched for: the scale by events has no other way back.
    const x = event.clientX - svg.getBoundingClientRect().left;
    let [low, high] = [0, what.last];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (at(middle) < x - 1) low = middle + 1;
      else high = middle;
    }
    what.go(low);
  } });
  what.rows.forEach((_, row) => svg.append(drawn("rect", { class: "lane", x: 0, y: top(row) + 4, width: end, height: ROW - 8, rx: 4 })));
  const box = (bar) => {
    const [x, right] = [at(bar.from), bar.to === null ? end - 4 : at(bar.to)];
    return { x, y: top(bar.row) + (ROW - BAR) / 2, width: Math.max(5, right - x) };
  };
  const order = what.bars.map((_, i) => i).sort((a, b) => what.bars[a].from - what.bars[b].from || what.bars[a].row - what.bars[b].row);
  const groups = [];
  const reach = (from, step) => {
    const next = order[order.indexOf(from) + step];
    if (next === undefined) return;
    groups[from].setAttribute("tabindex", -1);
    groups[next].setAttribute("tabindex", 0);
    groups[next].focus();
  };
  what.bars.forEach((bar, i) => {
    const { x, y, width } = box(bar);
    const letters = Math.floor((width - 8) / LETTER);
    const words = bar.text.length > letters ? `${bar.text.slice(0, Math.max(0, letters - 1))}\u2026` : bar.text;
    groups[i] = drawn("g", {
      class: `bar ${bar.kind}${bar.to === null ? " pending" : ""}`, role: "button", tabindex: i === order[0] ? 0 : -1, "aria-label": bar.about, "data-bar": i,
      onclick: () => what.choose(i), onmouseenter: () => what.point?.(i), onfocus: () => what.point?.(i),
      onkeydown: (event) => {
        const keys = { Enter: () => what.choose(i), " ": () => what.choose(i), ArrowRight: () => reach(i, 1), ArrowLeft: () => reach(i, -1) };
        if (!keys[event.key]) return;
        event.preventDefault();
        event.stopPropagation();
        keys[event.key]();
      },
    }, drawn("title", {}, bar.about), drawn("rect", { x, y, width, height: BAR, rx: 4 }),
    letters > 2 ? drawn("text", { x: x + 5, y: y + 16 }, words) : null);
    svg.append(groups[i]);
  });
  for (const tick of what.ticks ?? []) {
    svg.append(drawn("rect", { class: `tick ${tick.kind}`, x: at(tick.at) - 1, y: top(tick.row) + ROW - 7, width: 2, height: 5 }, drawn("title", {}, tick.text)));
  }
  // Each operation takes effect at a point of its interval, never left of the one before.
  let reached = 0;
  let line = "";
  (what.path ?? []).forEach((i, n) => {
    const { x, y, width } = box(what.bars[i]);
    reached = Math.min(Math.max(reached + 3, x + 2), Math.max(x + 2, x + width - 1));
    line += `${n ? "L" : "M"}${reached} ${y + BAR}`;
    svg.append(drawn("circle", { class: "mark", cx: reached, cy: y + BAR, r: 3 }), drawn("text", { class: "number", x: reached + 4, y: y + BAR + 9 }, String(n + 1)));
  });
  if (line) svg.append(drawn("path", { class: "order", d: line }));
  if (what.levels) {
    const most = Math.max(1, ...what.levels);
    const ground = TOP + what.rows.length * ROW + LEVEL;
    const points = what.levels.map((level, time) => `${at(time)} ${ground - (level / most) * (LEVEL - 4)}`);
    svg.append(drawn("path", { class: "levels", d: `M${at(0)} ${ground}L${points.join("L")}L${at(what.levels.length - 1)} ${ground}Z` },
      drawn("title", {}, `${what.levelsName}: at most ${most}`)));
  }
  if (what.wall) {
    const x = at(what.wall.at);
    const left = x > end / 2;
    svg.append(drawn("line", { class: "wall", x1: x, x2: x, y1: 4, y2: height - 4 }),
      drawn("text", { class: "wall", x: left ? x - 4 : x + 4, y: 14, "text-anchor": left ? "end" : "start" }, what.wall.text));
  }
  const present = drawn("line", { class: "now", y1: 2, y2: height - 2 });
  const scroller = h("div", { class: "scroller" }, svg);
  const names = h("div", { class: "names", "aria-hidden": "true", style: `padding-top: ${TOP}px` },
    what.rows.map((name) => h("div", { style: `height: ${ROW}px`, title: name }, name)),
    levels > 0 && h("div", { style: `height: ${LEVEL}px` }, what.levelsName));
  root.replaceChildren(names, scroller);
  const reveal = (time) => {
    const x = at(time);
    const { scrollLeft, clientWidth } = scroller;
    if (x < scrollLeft + 30 || x > scrollLeft + clientWidth - 60) scroller.scrollLeft = Math.max(0, x - clientWidth * 0.7);
  };
  return {
    reveal,
    now: (time) => {
      present.setAttribute("x1", at(time));
      present.setAttribute("x2", at(time));
      if (!present.isConnected) svg.append(present);
      reveal(time);
    },
  };
}

/** The button that makes the document dark or light, which it is at first as the system is. */
export function theme() {
  const button = document.getElementById("theme");
  const set = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
  };
  button.onclick = () => set(button.getAttribute("aria-pressed") !== "true");
  set(matchMedia("(prefers-color-scheme: dark)").matches);
}
