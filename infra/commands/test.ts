import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { bringUpParts } from '../bring-up.ts';
import { cloneFolder, defaultHome, homeAt } from '../home.ts';
import { takeDown } from '../take-down.ts';
import { removeTestHomes, sharedTestHome } from '../test-homes.ts';
import { runCommand } from './run-command.ts';

const help = `
npm test

Runs lint, type checks and all tests, on a Redis, Kafka, PostgreSQL and Pub/Sub of its own that are
started before and stopped after. Their logs stay in .triplock/test/logs.

  --help
`;

await runCommand({
  name: 'test',
  help,
  options: {},
  run: async ({ interrupted }) => {
    const report = (line: string) => process.stdout.write(`${line}\n`);
    const signal = interrupted();
    const home = sharedTestHome;
    await takeDownTests('forget');
    try {
      await bringUpParts({ home, report, signal });
      process.exitCode = await runTargets(homeAt(home).endpoints, signal);
      signal.throwIfAborted();
    } finally {
      report('stopping what the tests ran on');
      await takeDownTests('keep');
    }
  },
});

/** The parts, the system of the end-to-end tests, and what an interrupted test left. */
async function takeDownTests(data: 'keep' | 'forget'): Promise<void> {
  await removeTestHomes();
  await takeDown({ home: join(defaultHome, 'e2e'), data });
  await takeDown({ home: sharedTestHome, data });
}

/** Two at a time: the tests with real servers would starve each other on two cores. */
function runTargets(endpoints: string, signal: AbortSignal): Promise<number> {
  const nx = join(cloneFolder, 'node_modules', 'nx', 'dist', 'bin', 'nx.js');
  const child = spawn(
    process.execPath,
    [nx, 'run-many', '-t', 'lint', 'typecheck', 'test', '--parallel=2'],
    {
      cwd: cloneFolder,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, NX_DAEMON: 'false', TRIPLOCK_TEST_ENDPOINTS: endpoints },
    },
  );
  signal.addEventListener('abort', () => child.kill('SIGINT'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, end) => resolve(code ?? 128 + constants.signals[end!]));
  });
}
