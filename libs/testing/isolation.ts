import { randomBytes, randomInt } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';

/** What a test offers to clean up after itself; `TestContext` and suite hooks fit. */
export type Cleanup = { after(fn: () => Promise<void>): void };

/**
 * What cleans up after all tests of a file or a suite, of what `before` started for them: given the
 * `after` that stands there.
 */
export function cleanupBy(after: (fn: () => Promise<unknown>) => void): Cleanup {
  const closing: (() => Promise<void>)[] = [];
  after(() => Promise.all(closing.map((close) => close())));
  return { after: (close) => void closing.push(close) };
}

/**
 * Ports of tests: below those that Linux and macOS take by themselves for whoever connects or asks
 * for any port, and beside those that the launcher gives to homes.
 */
const ports = { from: 30_000, count: 2_768 };
/**
 * A folder for every ten minutes, with a file for each port that any process was given in them: one
 * for the user on this machine, whatever TMPDIR says, since processes of tests differ in that.
 */
const givenFolder = join('/tmp', `triplock-test-ports-${process.getuid?.() ?? 'user'}`);
const stretchMs = 600_000;

/**
 * A port on 127.0.0.1 that was free a moment ago, and that no test was given in the last ten
 * minutes: a service takes seconds to listen on the one that it was told. One so far above it is
 * free too, where a server takes that besides.
 */
export async function freePort(alsoAbove?: number): Promise<number> {
  const first = randomInt(ports.count);
  for (let n = 0; n < ports.count; n += 1) {
    const port = ports.from + ((first + n) % ports.count);
    if (!reserve(port) || !(await isFree(port))) continue;
    if (alsoAbove === undefined || (await isFree(port + alsoAbove))) return port;
  }
  throw new Error(`all ports from ${ports.from} on were given to tests within ten minutes`);
}

/** Creating the file is the reservation: of two processes at once one creates it. */
function reserve(port: number): boolean {
  const stretch = Math.floor(Date.now() / stretchMs);
  const fileIn = (which: number) => join(givenFolder, `${which}`, `${port}`);
  try {
    writeFileSync(fileIn(stretch), '', { flag: 'wx' });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (code !== 'ENOENT') throw error;
    mkdirSync(join(givenFolder, `${stretch}`), { recursive: true });
    rmSync(join(givenFolder, `${stretch - 2}`), { recursive: true, force: true });
    return reserve(port);
  }
  return !existsSync(fileIn(stretch - 1));
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
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
