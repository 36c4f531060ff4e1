// What the page uses of CodeMirror. ci/bundle-editor makes page/vendor/codemirror.js of it.
export { EditorState, Compartment, StateEffect, StateField } from "@codemirror/state";
export {
  EditorView, Decoration, keymap, drawSelection, lineNumbers, highlightActiveLine, highlightActiveLineGutter,
  highlightSpecialChars,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { StreamLanguage, HighlightStyle, syntaxHighlighting, bracketMatching } from "@codemirror/language";
export { autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
export { setDiagnostics, lintGutter, lintKeymap } from "@codemirror/lint";
export { tags } from "@lezer/highlight";
