import { readFileSync } from 'node:fs';
import { createDocument, type HttpDocument } from '@triplock/runtime';

const own = (name: string) => new URL(`public/${name}`, import.meta.url);
/** As it is published, whatever its package exports to code. */
const htmx = (name: string) => new URL(name, import.meta.resolve('htmx.org'));

const script = 'text/javascript; charset=utf-8';

/** Every file that browsers may have, by the name under /assets/; nothing else is served. */
const files: Readonly<Record<string, { type: string; from: readonly URL[] }>> = {
  'console.css': { type: 'text/css; charset=utf-8', from: [own('console.css')] },
  'console.js': { type: script, from: [own('console.js')] },
  'icon.svg': { type: 'image/svg+xml', from: [own('icon.svg')] },
  // One file: it looks for its extensions once, and would not see one that comes a moment later.
  'htmx.min.js': { type: script, from: [htmx('htmx.min.js'), htmx('ext/hx-sse.min.js')] },
};

const lineEnd = Buffer.from('\n');
const read = new Map<string, HttpDocument>();

/** The file of that name; `undefined` when there is none. Read once. */
export function assetOf(name: string): HttpDocument | undefined {
  const known = read.get(name);
  const file = Object.hasOwn(files, name) ? files[name] : undefined;
  if (known !== undefined || file === undefined) return known;
  const bytes = Buffer.concat(file.from.flatMap((each) => [readFileSync(each), lineEnd]));
  const asset = createDocument(file.type, bytes);
  read.set(name, asset);
  return asset;
}
