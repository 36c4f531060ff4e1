// Colours of the three languages: litmus tests and clients (docs/litmus.md, docs/clients.md), and model files (docs/models.md).
import { StreamLanguage } from "./vendor/codemirror.js";

const word = (list) => new Set(list.split(" "));

const TEST = {
  keywords: word("RDMA coreRMA if else while bound choose or loop break exists forall locations objects assume nodes strong unsignaled relaxed"),
  verdicts: word("allowed forbidden required robust ldrf fenced tree-fenced"),
  calls: word("mfence poll rfence wait cas rcas rfaa swap rswap send recv pollrecv imm inline get put rga flush"),
};

/** Comments and texts, which both languages have; null if there is neither here. */
function common(stream, state) {
  if (state.depth > 0 || stream.match("(*")) {
    if (state.depth === 0) state.depth = 1;
    while (!stream.eol() && state.depth > 0) {
      if (stream.match("(*")) state.depth += 1;
      else if (stream.match("*)")) state.depth -= 1;
      else stream.next();
    }
    return "comment";
  }
  if (stream.match(/^"[^"]*"?/)) return "string";
  return null;
}

export const test = StreamLanguage.define({
  name: "litmus",
  startState: () => ({ depth: 0 }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    const found = common(stream, state);
    if (found) return found;
    if (stream.match(/^P\d+@\d+/)) return "typeName";
    if (stream.match(/^\d+:/)) return "labelName";
    if (stream.match(/^-?\d+/)) return "number";
    const name = stream.match(/^[A-Za-z_][A-Za-z0-9_'.]*(-[A-Za-z]+)*/);
    if (name) {
      if (TEST.verdicts.has(name[0])) return "modifier";
      if (TEST.keywords.has(name[0])) return "keyword";
      if (TEST.calls.has(name[0]) || stream.match(/^\s*\(/, false)) return "function";
      return "variableName";
    }
    if (stream.match(/^(:=|\/\\|\\\/|==|!=|<>|<=|>=|&&|\|\||[\^|=<>+*!~@-])/)) return "operator";
    stream.next();
    return "punctuation";
  },
  languageData: { commentTokens: { block: { open: "(*", close: "*)" } } },
});

const MODEL = word("let rec and acyclic irreflexive empty requires include show as");

export const model = StreamLanguage.define({
  name: "model",
  startState: () => ({ depth: 0 }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    const found = common(stream, state);
    if (found) return found;
    const name = stream.match(/^[A-Za-z_][A-Za-z0-9_'.-]*/);
    if (name) return MODEL.has(name[0]) ? "keyword" : "variableName";
    if (stream.match(/^(\^-1|[|;\\&*~+?=^])/)) return "operator";
    stream.next();
    return "punctuation";
  },
  languageData: { commentTokens: { block: { open: "(*", close: "*)" } } },
});
