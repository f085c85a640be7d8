import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
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

/**
 * Starts the service whose main file `main` is, with nothing but `settings` in its environment and
 * where Node keeps compiled code, which halves the start. It is killed after the test if it still
 * lives, also when it stands still.
 */
export function startService(
  test: Cleanup,
  main: URL,
  settings: Readonly<Record<string, string>>,
): TestService {
  const { NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [fileURLToPath(main)], {
    env: { NODE_COMPILE_CACHE, ...settings },
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
    const answer = await fetch(`http://127.0.0.1:${settings['ADMIN_PORT']}${path}`, { method });
    // Read to its end: an answer that nobody reads keeps its connection, and the server, open.
    return new Response(await answer.arrayBuffer(), answer);
  };
  const readiness = { withinMs: 60_000, what: `readiness of ${fileURLToPath(main)}` };
  return {
    child,
    ended,
    admin,
    ready: async () => void (await eventually(async () => (await admin('/readyz')).ok, readiness)),
    terminate: () => {
      child.kill('SIGTERM');
      return ended;
    },
  };
}
