import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHome } from '../home.ts';
import { openSession } from '../session.ts';
import { testHome } from '../test/home.ts';
import { findPostgres } from './postgres.ts';
import { withQuotedPrograms } from './postgres-data.ts';

test('initdb finds its server where a shell would read the path of both otherwise', async (t) => {
  const listening = { report: () => undefined, signal: new AbortController().signal };
  const session = openSession(createHome(testHome(t)), listening);
  const { movable, ...found } = await findPostgres(session);
  if (movable === undefined) return t.skip('PostgreSQL is installed in this system');
  const folder = mkdtempSync(join(tmpdir(), 'triplock-programs-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const there = join(folder, 'a $HOME of `its` "own"');
  mkdirSync(there);
  cpSync(movable, there, { recursive: true, verbatimSymlinks: true });
  const installation = { folder, bin: join(there, 'bin') };
  const program = { ...found, bin: installation.bin, movable: there };
  // As initdb asks its server who it is.
  const versionAt = (bin: string) =>
    execFileSync('/bin/sh', ['-c', `"${bin}/postgres" -V`], { encoding: 'utf8', stdio: 'pipe' });
  assert.throws(() => versionAt(installation.bin));
  let used = '';
  await withQuotedPrograms(program, installation, async (bin) => {
    used = bin;
    assert.match(versionAt(bin), /^postgres \(PostgreSQL\) \d+/);
  });
  assert.equal(existsSync(used), false);
  const installed = { ...found, bin: installation.bin };
  await assert.rejects(
    withQuotedPrograms(installed, installation, async () => assert.fail('it ran')),
    /cannot be run by a path with one of .* put another on PATH/,
  );
});
