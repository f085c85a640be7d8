import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A webhook as a partner's server got it. */
export type Received = { path: string; headers: IncomingHttpHeaders; body: string };

/** Answers one webhook. */
export type Answer = (response: ServerResponse, received: Received) => void;

/** A partner's server in a test: it keeps what came and answers as it is set. */
export type Receiver = {
  url: string;
  received: Received[];
  /** Answers from now on; 204 by default. */
  answerWith(answer: Answer): void;
};

/** Starts a receiver on a free port of 127.0.0.1 and stops it after the test. */
export async function aReceiver(test: { after(fn: () => void): void }): Promise<Receiver> {
  const received: Received[] = [];
  let answer: Answer = (response) => void response.writeHead(204).end();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString('utf8');
      const one = { path: request.url!, headers: request.headers, body };
      received.push(one);
      answer(response, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    received,
    answerWith: (next) => void (answer = next),
  };
}
