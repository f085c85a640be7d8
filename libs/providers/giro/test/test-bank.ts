import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, freePort, testControlToken, type Cleanup } from '@triplock/testing';

/** A bank of one test's own, to be made to fail, killed and started again. */
export type TestBank = {
  apiUrl: string;
  token: string;
  /** A request under `/_simulator`; throws when it is refused. */
  control<Answer = unknown>(method: string, path: string, body?: object): Promise<Answer>;
  /** SIGKILL: only what is in its journal stays. */
  kill(): Promise<void>;
  /** Starts it again on the same port and journal, without faults. */
  start(): Promise<void>;
};

const program = fileURLToPath(new URL('../simulator/main.ts', import.meta.url));

/** Accounts by what comes of a transfer from them: the check digits are those of ISO 13616. */
export const accounts = {
  pays: ibanOf('370400440532013000'),
  hasTooLittle: ibanOf('370400440532013004'),
  isClosed: ibanOf('370400440532013005'),
  isNowhere: ibanOf('000000000532013000'),
} as const;

/** A German IBAN of a bank's and an account's number. */
function ibanOf(number: string): string {
  const check = 98n - (BigInt(`${number}131400`) % 97n);
  return `DE${String(check).padStart(2, '0')}${number}`;
}

/**
 * Starts a bank as a process on 127.0.0.1 that ends with the test. What is released there is under
 * way until it is told to settle.
 */
export async function createTestBank(test: Cleanup): Promise<TestBank> {
  const folder = await mkdtemp(join(tmpdir(), 'triplock-giro-'));
  const port = await freePort();
  const apiUrl = `http://127.0.0.1:${port}`;
  let bank: ChildProcess | undefined;
  const kill = async () => {
    if (bank === undefined || bank.exitCode !== null || bank.signalCode !== null) return;
    const gone = once(bank, 'exit');
    bank.kill('SIGKILL');
    await gone;
  };
  const start = async () => {
    const child = spawn(process.execPath, [program], {
      env: {
        CONTROL_TOKEN: testControlToken,
        GIRO_SIMULATOR_PORT: String(port),
        GIRO_SIMULATOR_JOURNAL: join(folder, 'journal.jsonl'),
        GIRO_SIMULATOR_SETTLE_AFTER_MS: '86400000',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    bank = child;
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const ready = await eventually(async () => {
      if (child.exitCode !== null) return 'ended';
      return (await fetch(`${apiUrl}/readyz`)).ok && 'ready';
    });
    if (ready === 'ended') throw new Error(`the bank did not start: ${stderr}`);
  };
  test.after(async () => {
    await kill();
    await rm(folder, { recursive: true, force: true });
  });
  await start();
  return { apiUrl, token: 'giro-token-test', control: bankControl(apiUrl), kill, start };
}

/** Asks the simulator at a URL under `/_simulator`; throws when it refuses. */
export function bankControl(url: string, token = testControlToken): TestBank['control'] {
  return async <Answer>(method: string, path: string, body?: object) => {
    const response = await fetch(`${url}/_simulator${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as Answer;
  };
}
