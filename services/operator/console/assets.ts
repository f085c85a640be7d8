import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A file that browsers get from here, with a tag that changes with its bytes. */
export type Asset = { type: string; bytes: Buffer; tag: string };

const css = 'text/css; charset=utf-8';

/** Every file that browsers may have, by the name under /assets/; nothing else is served. */
const files: Readonly<Record<string, { type: string; from: URL }>> = {
  'console.css': { type: css, from: new URL('public/console.css', import.meta.url) },
};

const read = new Map<string, Asset>();

/** The file of that name; `undefined` when there is none. Read once. */
export function assetOf(name: string): Asset | undefined {
  const known = read.get(name);
  const file = Object.hasOwn(files, name) ? files[name] : undefined;
  if (known !== undefined || file === undefined) return known;
  const bytes = readFileSync(file.from);
  const tag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
  const asset = { type: file.type, bytes, tag };
  read.set(name, asset);
  return asset;
}
