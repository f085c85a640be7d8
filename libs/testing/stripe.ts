import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './eventually.ts';
import { freePort, type Cleanup } from './isolation.ts';
import { testControlToken } from './services.ts';

/** A Stripe simulator of one test's own, to be made to fail, killed and started again. */
export type TestStripe = {
  url: string;
  /** Its address as the official package takes it: `new Stripe(apiKey, connection)`. */
  apiKey: string;
  connection: { host: string; port: number; protocol: 'http' };
  webhookSecret: string;
  /** The file of its journal, which outlives `kill`. */
  journal: string;
  /**
   * A request under `/_simulator`: faults, clock, authentication, audit; the simulator's README has
   * them all. Throws when it is refused.
   */
  control<Answer = unknown>(method: string, path: string, body?: unknown): Promise<Answer>;
  /** SIGKILL: only what is in the journal stays. */
  kill(): Promise<void>;
  /**
   * Starts it again on the same port and journal. Faults and settings are those of a fresh start.
   */
  start(): Promise<void>;
};

const program = fileURLToPath(new URL('../../infra/stripe-simulator/main.ts', import.meta.url));
const webhookSecret = 'whsec_test';

/**
 * Starts the Stripe simulator as a process on 127.0.0.1 that ends with the test. `settings` are
 * environment variables of the simulator's config.ts. Unless told otherwise a search is behind by a
 * minute, as Stripe's may be, and payments in processing settle after two seconds.
 */
export async function createTestStripe(
  test: Cleanup,
  settings: Readonly<Record<string, string>> = {},
): Promise<TestStripe> {
  const folder = await mkdtemp(join(tmpdir(), 'triplock-stripe-'));
  const journal = settings['STRIPE_SIMULATOR_JOURNAL'] ?? join(folder, 'journal.jsonl');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = {
    ...process.env,
    CONTROL_TOKEN: testControlToken,
    STRIPE_SIMULATOR_PORT: String(port),
    STRIPE_SIMULATOR_JOURNAL: journal,
    STRIPE_SIMULATOR_WEBHOOK_SECRET: webhookSecret,
    ...settings,
  };
  let simulator: ChildProcess | undefined;

  const kill = async () => {
    if (simulator === undefined || simulator.exitCode !== null || simulator.signalCode !== null)
      return;
    const gone = once(simulator, 'exit');
    simulator.kill('SIGKILL');
    await gone;
  };
  const start = async () => {
    const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    simulator = child;
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const ready = await eventually(async () => {
      if (child.exitCode !== null) return 'ended';
      return (await fetch(`${url}/readyz`)).ok && 'ready';
    });
    if (ready === 'ended') throw new Error(`the Stripe simulator did not start: ${stderr}`);
  };
  test.after(async () => {
    await kill();
    await rm(folder, { recursive: true, force: true });
  });
  await start();
  const connection = { host: '127.0.0.1', port, protocol: 'http' } as const;
  const address = { url, apiKey: 'sk_test_triplock', connection, webhookSecret, journal };
  return { ...address, control: stripeControl(url), kill, start };
}

/** Asks the simulator at a URL under `/_simulator`; throws when it refuses. */
export function stripeControl(url: string, token = testControlToken): TestStripe['control'] {
  return async <Answer>(method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}/_simulator${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as Answer;
  };
}
