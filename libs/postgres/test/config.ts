import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

let server: Promise<string> | undefined;

/**
 * The PostgreSQL of the tests, as a role that may create databases: the one that `npm test` started
 * (TRIPLOCK_TEST_ENDPOINTS names the file), else that of the home that other tests start and leave
 * running. The test equipment finds it for everybody else, but stands on this package.
 */
export function testServerUrl(): Promise<string> {
  server ??= findServer();
  return server;
}

async function findServer(): Promise<string> {
  const given = process.env['TRIPLOCK_TEST_ENDPOINTS'];
  return postgresIn(given ? readFileSync(given, 'utf8') : await startParts());
}

function postgresIn(endpoints: string): string {
  return (JSON.parse(endpoints) as { postgres: string }).postgres;
}

/** Launchers of several test processes take turns; who comes second finds everything running. */
async function startParts(): Promise<string> {
  const home = '.triplock/test';
  const words = ['infra/launcher/triplock.mjs', 'up', '--parts-only', '--json', '--home', home];
  const cwd = fileURLToPath(new URL('../../..', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, words, { cwd });
  const stop = `npm run down -- --home ${home}`;
  process.stderr.write(`what the tests ran on stays up for the next run: ${stop}\n`);
  return stdout;
}
