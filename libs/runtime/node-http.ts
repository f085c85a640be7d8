import type { IncomingMessage } from 'node:http';

/**
 * Node's HTTP, for what runs in a service. To import it from `node:http` has all that it exports
 * looked at, and behind one of those is the whole of `fetch`, which is loaded then: most of what
 * HTTP takes of a process, in memory and as it starts, for what no service uses.
 */
export const http = process.getBuiltinModule('node:http');

/**
 * The whole body of a request or an answer, or `undefined` when it is longer than so many bytes:
 * its connection is cut then, so that nobody sends for nothing.
 *
 * @throws when the connection ends before the body does.
 */
export async function bodyWithin(
  message: IncomingMessage,
  bytesMax: number,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // To leave the loop destroys the message.
  for await (const chunk of message as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
