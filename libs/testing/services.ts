import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { request, type IncomingMessage } from 'node:http';
import { fileURLToPath } from 'node:url';
import { eventually } from './eventually.ts';
import type { Cleanup } from './isolation.ts';

/** How a process ended: its exit code, or the signal that ended it, and all that it wrote. */
export type ServiceEnd = {
  exitCode: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
};

/** What whatever a test starts takes for a fault that is asked of it. */
export const testControlToken = 'control-token-of-tests';

/** What whatever a test starts seals webhook secrets with. */
export const testWebhookKeys = `test:${Buffer.alloc(32, 7).toString('base64')}`;

/** A service as a process of its own. */
export type TestService = {
  child: ChildProcess;
  ended: Promise<ServiceEnd>;
  /** Asks the admin server. */
  admin(path: string, method?: 'GET' | 'POST'): Promise<Response>;
  /** Resolves once every dependency answers. */
  ready(): Promise<void>;
  /** Asks it to finish (SIGTERM) and waits until it has ended. */
  terminate(): Promise<ServiceEnd>;
};

/** The same for what customers have to do. */
export const testSealingKeys = testWebhookKeys;

const givenToAll = {
  CONTROL_TOKEN: testControlToken,
  WEBHOOK_KEYS: testWebhookKeys,
  ACTION_KEYS: testSealingKeys,
};

/**
 * Where Node keeps compiled code, for a process that knows nothing else of this one's environment.
 */
export function compileCache(): { NODE_COMPILE_CACHE: string | undefined } {
  return { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] };
}

/**
 * Starts the service whose main file `main` is, with nothing but `settings` in its environment,
 * the token of its crash points, the keys of webhook secrets, and where Node keeps compiled code,
 * which halves the start. It is killed after the test if it still lives, also when it stands still.
 */
export function startService(
  test: Cleanup,
  main: URL,
  settings: Readonly<Record<string, string>>,
): TestService {
  const child = spawn(process.execPath, [fileURLToPath(main)], {
    env: { ...compileCache(), ...givenToAll, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const written = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  const ended = written.then(([stdout, stderr]) => {
    const { exitCode, signalCode: signal } = child;
    return { exitCode, signal, stdout, stderr };
  });
  test.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const admin: TestService['admin'] = async (path, method = 'GET') => {
    const answer = await fetch(`http://127.0.0.1:${settings['ADMIN_PORT']}${path}`, {
      method,
      headers: { authorization: `Bearer ${testControlToken}` },
    });
    // Read to its end: an answer that nobody reads keeps its connection, and the server, open.
    return new Response(await answer.arrayBuffer(), answer);
  };
  const readiness = { withinMs: 120_000, what: `readiness of ${fileURLToPath(main)}` };
  return {
    child,
    ended,
    admin,
    ready: async () => {
      await eventually(async () => {
        const answer = await admin('/readyz');
        if (!answer.ok) throw new Error(`/readyz is ${answer.status}: ${await answer.text()}`);
        return true;
      }, readiness);
    },
    terminate: () => {
      child.kill('SIGTERM');
      return ended;
    },
  };
}

/** How far off a clock is that is set wrong by a day and its time zone. */
export const clocksOff = [25, -25].map((hours) => ({ hours, settings: clockOff(hours) }));

/** Settings under which a service's own clock is ahead by so many hours, and nobody else's. */
export function clockOff(hours: number): Readonly<Record<'NODE_OPTIONS', string>> {
  const preload = `const { now } = Date;
    Date.now = () => now() + ${hours * 3_600_000};
    globalThis.Date = new Proxy(Date, { construct: (target, given, as) =>
      Reflect.construct(target, given.length > 0 ? given : [Date.now()], as) });`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
}

/**
 * Asks for a fault as those who may not: without the token of the home, with another one, and with
 * the right one from a page elsewhere, by its Origin or by a name that was made to point here.
 *
 * @param kind `from elsewhere`: only those of another page, for what wants no token.
 * @returns who asked, and the status of each answer.
 */
export async function askAsStrangers(
  url: string,
  { method, path, body = '' }: { method: string; path: string; body?: string },
  kind: 'anybody' | 'from elsewhere' = 'anybody',
): Promise<[who: string, status: number][]> {
  const right = { authorization: `Bearer ${testControlToken}` };
  const { port } = new URL(url);
  const strangers: Record<string, Record<string, string>> = {
    ...(kind === 'anybody' && {
      'no token': {},
      'another token': { authorization: `Bearer ${testControlToken}x` },
    }),
    'a page elsewhere': { ...right, origin: 'http://evil.example' },
    'a file or a sandboxed frame': { ...right, origin: 'null' },
    'another port of this machine': { ...right, origin: 'http://127.0.0.1:1' },
    'a name that points here': { ...right, host: `evil.example:${port}` },
    'a name that looks like ours': { ...right, host: `localhost.evil.example:${port}` },
    'an address that is not ours': { ...right, host: `192.0.2.1:${port}` },
  };
  const type = { 'content-type': 'text/plain', 'content-length': String(body.length) };
  return Promise.all(
    Object.entries(strangers).map(async ([who, headers]): Promise<[string, number]> => {
      const asked = request(new URL(path, url), { method, headers: { ...type, ...headers } });
      const [answer] = (await once(asked.end(body), 'response')) as [IncomingMessage];
      answer.resume();
      await once(answer, 'end');
      return [who, answer.statusCode!];
    }),
  );
}
