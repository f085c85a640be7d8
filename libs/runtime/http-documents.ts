import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/**
 * What is served to everybody alike: bytes that are made once, so that one more reader costs no
 * rendering and no memory, with a tag that changes with them.
 */
export type HttpDocument = { type: string; bytes: Buffer; tag: string };

/** A document of these bytes, which nobody may change from here on. */
export function createDocument(type: string, content: string | Buffer): HttpDocument {
  const bytes = Buffer.from(content);
  const tag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
  return { type, bytes, tag };
}

/**
 * Whether whoever asks has these bytes already, and a 304 is the answer: `If-None-Match` compares
 * weakly, and `*` is any (RFC 9110, section 13.1.2).
 */
export function hasDocument(
  headers: Pick<IncomingHttpHeaders, 'if-none-match'>,
  { tag }: HttpDocument,
): boolean {
  const known = headers['if-none-match'];
  if (known === undefined) return false;
  return known.split(',').some((each) => {
    const one = each.trim();
    return one === '*' || one.replace(/^W\//, '') === tag;
  });
}
