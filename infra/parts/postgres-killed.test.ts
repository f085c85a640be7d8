import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually } from '@triplock/testing';
import { givenBrokers } from '../a-given-broker.ts';
import { aHome } from '../a-home.ts';
import { bringUpParts } from '../bring-up.ts';
import { homeAt } from '../home.ts';
import { withDatabase } from '../provision/database.ts';
import { readState } from '../state.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

/** Busy without ever waiting, so it does not notice that its server is gone. */
const busy = `DO $$
  DECLARE till timestamptz := clock_timestamp() + interval '6 s';
  BEGIN WHILE clock_timestamp() < till LOOP END LOOP; END $$`;

test('up right after a SIGKILL of PostgreSQL waits for the backends that are still at work', async (t) => {
  const home = aHome(t);
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
