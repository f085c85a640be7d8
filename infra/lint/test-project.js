import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';

/** Above the longest real test, so that it only ever ends one that hangs. */
const testTimeoutMs = 300_000;

const [projectRoot, ...options] = process.argv.slice(2);
const files = globSync(`${projectRoot}/**/*.test.ts`, { exclude: ['**/node_modules'] }).sort();

if (files.length === 0) {
  console.log(`${projectRoot} has no tests: no file there is named *.test.ts`);
} else {
  const flags = ['--test', '--test-reporter=spec', `--test-timeout=${testTimeoutMs}`, ...options];
  const { status, signal } = spawnSync(process.execPath, [...flags, ...files], {
    stdio: 'inherit',
  });
  if (signal !== null) console.error(`the tests of ${projectRoot} were ended by ${signal}`);
  process.exitCode = status ?? 1;
}
