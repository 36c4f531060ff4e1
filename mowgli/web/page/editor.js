// The editor: one view, two texts (the test and the model file), each with its own history.
import {
  EditorState, EditorView, StateEffect, StateField, Decoration, keymap, drawSelection, lineNumbers, highlightActiveLine,
  highlightActiveLineGutter, highlightSpecialChars, defaultKeymap, history, historyKeymap, HighlightStyle, syntaxHighlighting,
  bracketMatching, autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap, setDiagnostics, lintGutter, lintKeymap, tags,
} from "./vendor/codemirror.js";
import * as languages from "./languages.js";

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--syntax-keyword)", fontWeight: "600" },
  { tag: tags.modifier, color: "var(--syntax-verdict)", fontWeight: "600" },
  { tag: tags.function(tags.variableName), color: "var(--syntax-call)" },
  { tag: tags.typeName, color: "var(--syntax-thread)", fontWeight: "600" },
  { tag: tags.labelName, color: "var(--syntax-thread)" },
  { tag: tags.string, color: "var(--syntax-string)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: tags.number, color: "var(--syntax-number)" },
  { tag: tags.operator, color: "var(--syntax-operator)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "14px", backgroundColor: "var(--panel)", color: "var(--ink)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-marked": { backgroundColor: "var(--mark)", borderRadius: "3px" },
});

const setMarks = StateEffect.define();
const marks = StateField.define({
  create: () => Decoration.none,
  update(value, transaction) {
    value = value.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(setMarks)) {
        const inside = effect.value.filter((r) => r.from < r.to && r.to <= transaction.newDoc.length);
        inside.sort((a, b) => a.from - b.from);
        value = Decoration.set(inside.map((r) => Decoration.mark({ class: "cm-marked" }).range(r.from, r.to)));
      }
    }
    return value;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const KINDS = {
  keyword: "keyword", location: "variable", register: "property", object: "variable", method: "function", model: "type",
  set: "class", relation: "function",
};

export class Editor {
  #view;
  #states;
  #which = "test";
  #names = { test: [], model: [] };

  /** `changed(which)` hears of new text, `moved(position)` of the cursor in the test. */
  constructor(parent, texts, changed, moved) {
    const complete = (context) => {
      const before = context.matchBefore(/[A-Za-z_][\w'.-]*/);
      if (!before && !context.explicit) return null;
      const seen = new Set();
      const names = this.#names[this.#which].filter((n) => !seen.has(n.name) && seen.add(n.name));
      const options = names.map((n) => ({ label: n.name, type: KINDS[n.kind], detail: n.detail || n.kind }));
      return { from: before ? before.from : context.pos, options, validFor: /^[\w'.-]*$/ };
    };
    const extensions = (which) => [
      lineNumbers(), highlightActiveLineGutter(), highlightSpecialChars(), history(), drawSelection(), bracketMatching(),
      closeBrackets(), highlightActiveLine(), lintGutter(), marks, theme, syntaxHighlighting(colours), languages[which],
      autocompletion({ override: [complete] }),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
      EditorView.contentAttributes.of({ "aria-label": which === "test" ? "Test" : "Model file my.cat" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) changed(which);
        if (update.selectionSet && which === "test") moved(update.state.selection.main.head);
      }),
    ];
    const state = (which) => EditorState.create({ doc: texts[which], extensions: extensions(which) });
    this.#states = { test: state("test"), model: state("model") };
    this.#view = new EditorView({ state: this.#states.test, parent });
  }

  get which() {
    return this.#which;
  }

  text(which) {
    return (which === this.#which ? this.#view.state : this.#states[which]).doc.toString();
  }

  /** Shows the test or the model file. */
  show(which) {
    if (which === this.#which) return;
    this.#states[this.#which] = this.#view.state;
    this.#which = which;
    this.#view.setState(this.#states[which]);
  }

  /** Replaces a whole text, as an edit that can be undone. */
  replace(which, text) {
    this.show(which);
    this.#view.dispatch({
      changes: { from: 0, to: this.#view.state.doc.length, insert: text },
      selection: { anchor: 0 },
      scrollIntoView: true,
    });
  }

  /** Shows what is wrong with the text in view, and the names that can be completed: of a text with errors, those that it had before. */
  inform(which, { diagnostics, names, usable }) {
    if (usable || this.#names[which].length === 0) this.#names[which] = names;
    if (which !== this.#which) return;
    const length = this.#view.state.doc.length;
    const shown = diagnostics.map((d) => ({
      from: Math.min(d.from, length),
      to: Math.min(Math.max(d.to, d.from + 1), length),
      severity: d.severity,
      source: d.code,
      message: d.help ? `${d.message}\n${d.help}` : d.message,
    }));
    this.#view.dispatch(setDiagnostics(this.#view.state, shown));
  }

  /** Marks ranges of the test. */
  mark(ranges) {
    if (this.#which === "test") this.#view.dispatch({ effects: setMarks.of(ranges) });
  }

  /** Moves the cursor. */
  go(range) {
    this.#view.dispatch({ selection: { anchor: range.from }, scrollIntoView: true });
    this.#view.focus();
  }
}
