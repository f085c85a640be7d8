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

/** What is answered to whoever asks for a document: `body` is nothing where they have it. */
type DocumentAnswer = {
  status: 200 | 304;
  headers: { 'cache-control': string; etag: string; 'content-type'?: string };
  body?: Buffer;
};

/**
 * The document, or a 304 for whoever names its tag: `If-None-Match` compares weakly, and `*` is any
 * (RFC 9110, section 13.1.2). It is asked for again each time, since the next version may have
 * another one.
 */
export function documentAnswer(
  { 'if-none-match': known = '' }: Pick<IncomingHttpHeaders, 'if-none-match'>,
  { type, bytes, tag }: HttpDocument,
): DocumentAnswer {
  const headers = { 'cache-control': 'no-cache', etag: tag };
  const hasIt = known.split(',').some((each) => {
    const one = each.trim();
    return one === '*' || one.replace(/^W\//, '') === tag;
  });
  if (hasIt) return { status: 304, headers };
  return { status: 200, headers: { ...headers, 'content-type': type }, body: bytes };
}
