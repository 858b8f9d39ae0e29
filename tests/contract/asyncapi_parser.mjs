// Reads AsyncAPI documents with the parser of the AsyncAPI project and prints what it says of each as JSON. No network:
// the documents have no references to other places.
import { readFile } from 'node:fs/promises';
import { Parser } from '@asyncapi/parser';

const parser = new Parser();
const found = {};
for (const source of process.argv.slice(2)) {
  const { document, diagnostics } = await parser.parse(await readFile(source, 'utf8'), { source });
  found[source] = {
    messages: document ? document.allMessages().all().map((message) => message.name()) : [],
    said: diagnostics.map(({ severity, code, message, path }) => ({ severity, code, message, path: path.join('.') })),
  };
}
console.log(JSON.stringify(found));
