import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { checkDurability, PostgresDurabilityError, readDurability } from './durability.ts';
import { openDatabase } from './pool.ts';
import { openEmptyDatabase } from './test/empty-database.ts';

for (const setting of ['synchronous_commit', 'fsync']) {
  test(`a server that may lose acknowledged commits is refused: ${setting} = off`, () => {
    const row = { role: 'r', fsync: 'on', synchronous_commit: 'on', [setting]: 'off' };
    assert.throws(() => checkDurability(row), new RegExp(`role r, .* set ${setting} to on`));
  });
}

/** A pool of one connection that is looked at when it is made. */
function aCheckedPool(context: TestContext, { url, options }: { url: string; options?: string }) {
  const at = new URL(url);
  if (options !== undefined) at.searchParams.set('options', options);
  const pool = openDatabase({
    url: at.href,
    applicationName: 'test',
    connectionsMax: 1,
    onConnect: readDurability,
    onIdleError: () => undefined,
  });
  context.after(() => pool.close());
  return pool;
}

test('no connection whose commits do not wait for the disk is used, whoever set it so', async (context) => {
  const { url, ...owner } = await openEmptyDatabase(context);
  const lasting = aCheckedPool(context, { url });
  assert.deepEqual(await readDurability(lasting), { asynchronousStandbys: 0 });
  const bySession = aCheckedPool(context, { url, options: '-c synchronous_commit=off' });
  await assert.rejects(bySession.query('SELECT 1'), PostgresDurabilityError);

  const { pathname } = new URL(url);
  await owner.query(`ALTER DATABASE "${pathname.slice(1)}" SET synchronous_commit = off`);
  const byDatabase = aCheckedPool(context, { url });
  await assert.rejects(
    byDatabase.transaction(async () => undefined),
    PostgresDurabilityError,
  );
  await owner.query(`ALTER DATABASE "${pathname.slice(1)}" RESET synchronous_commit`);
  // Refused connections do not use up the pool.
  await byDatabase.ping();
});
