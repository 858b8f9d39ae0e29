// A small part of Markdown, as a tree of plain objects: what cannot be read as Markdown stays as it was written.
// Nothing here makes HTML; dom.js makes elements and text nodes from the tree.

const FENCE = /^\s{0,3}(```|~~~)/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const BULLET = /^\s{0,3}[-*+]\s+(.*)$/;
const NUMBER = /^\s{0,3}\d{1,9}[.)]\s+(.*)$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
const INLINE = /`([^`\n]{1,500})`|\*\*([^*\s][^*\n]{0,499})\*\*|\*([^*\s][^*\n]{0,499})\*|\[([^\]\n]{1,300})\]\((https?:\/\/[^\s)]{1,1000})\)/g;

/** Blocks: { tag, children } and { tag: "pre", text }. */
export function parse(source) {
  const lines = source.replaceAll("\r\n", "\n").split("\n");
  const blocks = [];
  let at = 0;
  const taken = (pattern) => {
    const items = [];
    while (at < lines.length) {
      const match = pattern.exec(lines[at]);
      if (!match) break;
      items.push(match[1]);
      at += 1;
    }
    return items;
  };
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === "") {
      at += 1;
    } else if (FENCE.test(line)) {
      blocks.push(fenced());
    } else if (HEADING.test(line)) {
      blocks.push({ tag: "p", children: [{ tag: "strong", children: inline(HEADING.exec(line)[2]) }] });
      at += 1;
    } else if (BULLET.test(line)) {
      blocks.push({ tag: "ul", children: taken(BULLET).map((item) => ({ tag: "li", children: inline(item) })) });
    } else if (NUMBER.test(line)) {
      blocks.push({ tag: "ol", children: taken(NUMBER).map((item) => ({ tag: "li", children: inline(item) })) });
    } else if (QUOTE.test(line)) {
      blocks.push({ tag: "blockquote", children: inline(taken(QUOTE).join("\n")) });
    } else {
      blocks.push({ tag: "p", children: inline(paragraph()) });
    }
  }
  return blocks;

  function fenced() {
    const fence = FENCE.exec(lines[at])[1];
    const body = [];
    for (at += 1; at < lines.length && !lines[at].trimStart().startsWith(fence); at += 1) body.push(lines[at]);
    at += 1;
    return { tag: "pre", text: body.join("\n") };
  }

  function paragraph() {
    const body = [lines[at]];
    at += 1;
    const begins = [FENCE, HEADING, BULLET, NUMBER, QUOTE];
    while (at < lines.length && lines[at].trim() !== "" && !begins.some((each) => each.test(lines[at]))) {
      body.push(lines[at]);
      at += 1;
    }
    return body.join("\n");
  }
}

/** Text with code, strong, emphasis and links: strings and { tag, children, href? }. */
export function inline(text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > last) parts.push(text.slice(last, match.index));
    const [all, code, strong, emphasis, label, href] = match;
    if (code !== undefined) parts.push({ tag: "code", children: [code] });
    else if (strong !== undefined) parts.push({ tag: "strong", children: [strong] });
    else if (emphasis !== undefined) parts.push({ tag: "em", children: [emphasis] });
    else parts.push({ tag: "a", href, children: [label] });
    last = match.index + all.length;
  }
  if (last < text.length) parts.push(text.slice(last));
  return parts;
}
