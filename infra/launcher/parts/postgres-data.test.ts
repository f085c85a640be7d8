import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { eventually } from '@triplock/testing';
import { bringUpParts } from '../bring-up.ts';
import { killProcess } from '../faults.ts';
import { homeAt } from '../home.ts';
import { withDatabase } from '../provision/database.ts';
import { readState } from '../session.ts';
import { givenBrokers, testHome } from '../test/home.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

/** Busy without ever waiting, so it does not notice that its server is gone. */
const busy = `DO $$
  DECLARE till timestamptz := clock_timestamp() + interval '6 s';
  BEGIN WHILE clock_timestamp() < till LOOP END LOOP; END $$`;

test('up right after a SIGKILL of PostgreSQL waits for the backends that are still at work', async (t) => {
  const home = testHome(t);
  const { postgres } = await bringUpParts({ home });
  // Whether it still gets an answer is a race that nothing here depends on.
  const work = Promise.allSettled([withDatabase(postgres, (database) => database.query(busy))]);
  const isBusy = `SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'`;
  await eventually(() =>
    withDatabase(postgres, async (database) => (await database.query(isBusy)).length > 0),
  );
  const { pid } = readState(homeAt(home)).processes['postgres']!;
  process.kill(pid, 'SIGKILL');

  const lines: string[] = [];
  const again = await bringUpParts({ home, report: (line) => lines.push(line) });
  assert.equal(again.postgres, postgres);
  assert.ok(
    lines.some((line) => line.includes('still at work')),
    lines.join('\n'),
  );
  await withDatabase(postgres, (database) => database.ping());
  await work;
});

test('a lock file that names a process of somebody else does not keep PostgreSQL from starting', async (t) => {
  const home = testHome(t);
  await bringUpParts({ home });
  const lockFile = join(home, 'data', 'postgres', 'cluster', 'postmaster.pid');
  const left = readFileSync(lockFile, 'utf8');
  await killProcess({ home, name: 'postgres' });
  // As after a reboot, or while the killed one is not collected: its number is that of a process.
  // PostgreSQL cares about those of its own user only.
  const { uid, gid } = statSync(dirname(lockFile));
  const somebody = spawn('sleep', ['300'], { uid, gid, stdio: 'ignore' });
  t.after(() => somebody.kill());
  writeFileSync(lockFile, left.replace(/^\d+/, String(somebody.pid)));
  const { postgres } = await bringUpParts({ home });
  await withDatabase(postgres, (database) => database.ping());
});
