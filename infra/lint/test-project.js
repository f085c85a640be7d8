import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';

/** Above the longest real test on a busy machine, so that it only ever ends one that hangs. */
const testTimeoutMs = 600_000;

const [projectRoot, ...rest] = process.argv.slice(2);
// `--without=FOLDER`: that part of the project has a target of its own.
const without = rest.flatMap((option) => /^--without=(.+)$/.exec(option)?.[1] ?? []);
const options = rest.filter((option) => !option.startsWith('--without='));
const exclude = ['**/node_modules', ...without];
const files = globSync(`${projectRoot}/**/*.test.ts`, { exclude }).sort();

if (files.length === 0) {
  console.log(`${projectRoot} has no tests: no file there is named *.test.ts`);
} else {
  // Nx asks for colours even where nobody sees them; tests judge what a command prints without.
  const env = { ...process.env };
  delete env.FORCE_COLOR;
  // kafkajs computes a negative timer on newer Nodes; harmless, and only noise on a console.
  const quiet = '--disable-warning=TimeoutNegativeWarning';
  const flags = [
    quiet,
    '--test',
    '--test-reporter=spec',
    `--test-timeout=${testTimeoutMs}`,
    ...options,
  ];
  const { status, signal } = spawnSync(process.execPath, [...flags, ...files], {
    stdio: 'inherit',
    env,
  });
  if (signal !== null) console.error(`the tests of ${projectRoot} were ended by ${signal}`);
  process.exitCode = status ?? 1;
}
