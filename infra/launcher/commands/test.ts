import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { chooseTestParts, testEndpoints } from '@triplock/testing';
import { bringUpParts } from '../bring-up.ts';
import { cloneFolder, createHome, defaultHome, homeAt } from '../home.ts';
import { writeJson } from '../json-file.ts';
import { takeDown } from '../take-down.ts';
import { removeTestHomes, sharedTestHome } from '../test-homes.ts';
import { runCommand } from './run-command.ts';

const help = `
npm test

Runs lint, type checks, the tests of every project and the promises end to end, on a Redis, Kafka,
PostgreSQL and Pub/Sub of its own that are started before and stopped after: in containers where an
engine answers and has the images, else as processes, whose logs stay in .triplock/test/logs.
TRIPLOCK_TEST_PARTS=native or =containers decides. What takes longer is \`npm run prove\`; .ci/run
runs both.

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
    const { parts, because } = await chooseTestParts();
    report(
      `tests run on ${parts === 'native' ? 'processes of the launcher' : 'containers'}: ${because}`,
    );
    try {
      if (parts === 'native') await bringUpParts({ home, report, signal });
      // They go when this process has ended, however it ends.
      else writeJson(createHome(home).endpoints, await testEndpoints());
      process.exitCode = await runTargets(homeAt(home).endpoints, signal);
      signal.throwIfAborted();
    } finally {
      report('stopping what the tests ran on');
      await takeDownTests('keep');
    }
  },
});

/**
 * The parts, the system of the end-to-end tests, and what an interrupted test left. One that cannot
 * be taken down, such as containers without an engine, keeps none of the others.
 */
async function takeDownTests(data: 'keep' | 'forget'): Promise<void> {
  const homes = [
    join(defaultHome, 'e2e'),
    join(sharedTestHome, 'beside-containers'),
    sharedTestHome,
  ];
  const ends = [removeTestHomes, ...homes.map((home) => () => takeDown({ home, data }))];
  const errors: unknown[] = [];
  for (const end of ends) await end().catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

/**
 * Everything, the end-to-end promises beside the rest: they wait for leases, sessions and restarts
 * for most of their time, and the rest does not. Exit code 0 only if both are green.
 */
async function runTargets(endpoints: string, signal: AbortSignal): Promise<number> {
  const rest = ['run-many', '-t', 'lint', 'typecheck', 'test', '--parallel=3'];
  const codes = await Promise.all([
    runNx(rest, { endpoints, signal, data: '.nx/workspace-data' }),
    runNx(['run', '@triplock/e2e:promises'], { endpoints, signal, data: '.nx/promises-data' }),
  ]);
  return Math.max(...codes);
}

/** Two that run at once keep what they know of past runs apart: each locks its own. */
function runNx(
  args: readonly string[],
  { endpoints, signal, data }: { endpoints: string; signal: AbortSignal; data: string },
): Promise<number> {
  const nx = join(cloneFolder, 'node_modules', 'nx', 'dist', 'bin', 'nx.js');
  const child = spawn(process.execPath, [nx, ...args], {
    cwd: cloneFolder,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      NX_DAEMON: 'false',
      NX_WORKSPACE_DATA_DIRECTORY: join(cloneFolder, data),
      TRIPLOCK_TEST_ENDPOINTS: endpoints,
    },
  });
  signal.addEventListener('abort', () => child.kill('SIGINT'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, end) => resolve(code ?? 128 + constants.signals[end!]));
  });
}
