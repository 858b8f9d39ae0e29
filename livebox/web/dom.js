// Elements without HTML: everything that people or agents wrote becomes a text node, never markup.

import { parse } from "./markdown.js";

const PROPERTIES = new Set(["className", "value", "max", "min", "high", "type", "disabled", "open", "htmlFor", "tabIndex"]);

/** An element. Names that begin with "on" are listeners; some are properties, the others attributes. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

/** Set the text of an element only where it is another one. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show or hide an element. */
export function show(element, shown) {
  if (element.hidden === Boolean(shown)) element.hidden = !shown;
}

/** Make the children of `parent` those of `items` ([key, value]) in order, keeping the elements that are there. */
export function keyed(parent, items, create, update = () => {}) {
  const known = parent.keyedChildren ?? (parent.keyedChildren = new Map());
  const wanted = new Set(items.map(([key]) => key));
  for (const [key, element] of known) {
    if (wanted.has(key)) continue;
    element.remove();
    known.delete(key);
  }
  let place = parent.firstElementChild;
  for (const [key, value] of items) {
    let element = known.get(key);
    if (!element) {
      element = create(value, key);
      known.set(key, element);
    }
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    update(element, value, key);
  }
}

/** A text of an agent or a person, plain or Markdown, put into `element`; nothing happens when it is there already. */
export function write(element, content, markdown) {
  const key = `${markdown ? "m" : "p"}${content}`;
  if (element.written === key) return;
  element.written = key;
  element.classList.toggle("plain", !markdown);
  if (markdown) element.replaceChildren(...parse(content).map(node));
  else element.textContent = content;
}

function node(part) {
  if (typeof part === "string") return document.createTextNode(part);
  if (part.tag === "pre") return h("pre", { tabIndex: 0, role: "region", "aria-label": "Code" }, h("code", {}, part.text));
  const link = part.tag === "a" ? { href: part.href, rel: "noopener noreferrer nofollow", target: "_blank" } : {};
  return h(part.tag, link, ...part.children.map(node));
}
