import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Cleanup } from './isolation.ts';

/** An answer of HTTP: 200 and JSON, unless it says otherwise; a text goes out as it is. */
export type TestAnswer = { status?: number; type?: string; body: unknown };

/** Something that answers every request by what it was given last, until the test is over. */
export async function answering(test: Cleanup) {
  let answer: TestAnswer = { body: {} };
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const { status = 200, type = 'application/json', body } = answer;
      response.writeHead(status, { 'content-type': type });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });
  server.listen({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  test.after(async () => {
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answerBy: (next: TestAnswer) => void (answer = next),
  };
}
