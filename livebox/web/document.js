// The run document: operations of RFC 6902 (add, replace, remove) on keyed objects, without changing what is there.

/** The operation does not fit the document; whoever holds it should fetch it. */
export class Misfit extends Error {}

/** The document after `ops`; `document` itself stays as it is. Throws Misfit. */
export function apply(document, ops) {
  let after = document;
  for (const op of ops) after = changed(after, keysOf(op.path), op);
  return after;
}

/** The keys of a JSON pointer (RFC 6901). */
export function keysOf(pointer) {
  if (typeof pointer !== "string" || !pointer.startsWith("/")) throw new Misfit(`no pointer to a member: ${pointer}`);
  return pointer.slice(1).split("/").map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function changed(place, [key, ...below], op) {
  const there = Object.hasOwn(place, key);
  const after = Array.isArray(place) ? [...place] : { ...place };
  if (below.length > 0) {
    // Objects that only hold others come with the first member below them.
    const inner = there ? place[key] : op.op === "add" ? {} : undefined;
    if (typeof inner !== "object" || inner === null) throw new Misfit(`nothing at ${op.path}`);
    put(after, key, changed(inner, below, op));
  } else if (op.op === "remove") {
    if (!there) throw new Misfit(`nothing to remove at ${op.path}`);
    delete after[key];
  } else if (op.op === "add" || (op.op === "replace" && there)) {
    put(after, key, op.value);
  } else {
    throw new Misfit(`cannot ${op.op} ${op.path}`);
  }
  return after;
}

// Keys are names, whatever they look like: assigning "__proto__" would set the prototype instead.
function put(object, key, value) {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

/** The members of a keyed object as [key, value] in the order of their ordinal (or other number), then of their key. */
export function ordered(members, by = "ordinal") {
  return Object.entries(members ?? {}).sort(
    ([a, one], [b, two]) => (one[by] ?? 0) - (two[by] ?? 0) || (a < b ? -1 : Number(a > b)),
  );
}
