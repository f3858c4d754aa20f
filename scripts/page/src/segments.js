import { h } from "./dom.js";

// A choice of one among few, as radio buttons that look like one control.
export function segments(name, choices, onChange) {
  const inputs = new Map();
  const element = h("fieldset", { class: "segments" }, h("legend", { class: "hidden-text" }, name), choices.map(([value, label]) => {
    const input = h("input", { type: "radio", name: `segments-${name}`, value, on: { change: () => onChange(value) } });
    inputs.set(value, input);
    return h("label", {}, input, label);
  }));
  return { element, set: (value) => { const input = inputs.get(value); if (input) input.checked = true; } };
}
