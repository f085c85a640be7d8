import { randomBytes } from 'node:crypto';
import { createServer, type AddressInfo } from 'node:net';

/** What a test offers to clean up after itself; `TestContext` and suite hooks fit. */
export type Cleanup = { after(fn: () => Promise<void>): void };

const given = new Set<number>();

/** A port on 127.0.0.1 that was free a moment ago, and that this process was not given before. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = await anyFreePort();
    if (given.has(port)) continue;
    given.add(port);
    return port;
  }
}

function anyFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

/** A name that no other test uses: a Redis namespace, a consumer group, a partner. */
export function testNamespace(prefix = 'test'): string {
  return `${prefix}-${randomBytes(8).toString('hex')}`;
}

/**
 * How large a test is to be: as its variable in the environment says, else as `npm test` has it.
 */
export function testSize(variable: string, usual: number): number {
  return Number(process.env[variable] ?? usual);
}
