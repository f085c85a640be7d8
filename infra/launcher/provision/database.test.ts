import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createTestDatabase } from '@triplock/testing';
import { LauncherError } from '../errors.ts';
import { provisionDatabase } from './database.ts';
import { ledgerOf } from './ledger.ts';

async function aDatabase(context: TestContext) {
  const store = await createTestDatabase(context);
  const reported: string[] = [];
  const server = { url: store.url(), origin: 'given' } as const;
  const provision = () => provisionDatabase(server, (line) => reported.push(line));
  return { database: store.open(), provision, reported };
}

const refused = (sentence: RegExp) => (error: unknown) => {
  assert.ok(error instanceof LauncherError);
  assert.match(error.message, sentence);
  assert.doesNotMatch(error.message, /\n/);
  return true;
};

test('data of a newer version is refused in one sentence', async (context) => {
  const { database, provision } = await aDatabase(context);
  await database.query(
    `INSERT INTO migrations.applied (owner, file, sha256) VALUES ('ledger', '9999-later.sql', '')`,
  );
  await assert.rejects(
    provision(),
    refused(/has migration ledger\/9999-later.sql, which this version does not know/),
  );
});

test('data of a version before the baseline is refused, with what to do', async (context) => {
  const { database, provision } = await aDatabase(context);
  await database.query(
    `UPDATE migrations.applied SET file = '0001-ledger.sql'
     WHERE owner = 'ledger' AND file = '0001-baseline.sql'`,
  );
  await assert.rejects(
    provision(),
    refused(/made by an older version \(migration ledger\/0001-ledger.sql\).*down -- --volumes/),
  );
});

test('data whose migration was changed afterwards is refused in one sentence', async (context) => {
  const { database, provision } = await aDatabase(context);
  await database.query(
    `UPDATE migrations.applied SET sha256 = 'another' WHERE file = '0001-baseline.sql' AND owner = 'ledger'`,
  );
  await assert.rejects(
    provision(),
    refused(/migration ledger\/0001-baseline.sql was changed after it ran here/),
  );
});

test('a ledger stays where it is, and a new one is where it is asked for', () => {
  assert.equal(ledgerOf({}, undefined), 'postgres');
  assert.equal(ledgerOf({}, 'spanner'), 'spanner');
  const inSpanner = { ledger: 'spanner' as const };
  assert.equal(ledgerOf(inSpanner, undefined), 'spanner');
  assert.throws(() => ledgerOf(inSpanner, 'postgres'), LauncherError);
  const inPostgres = { ledger: 'postgres' as const };
  assert.throws(() => ledgerOf(inPostgres, 'spanner'), /does not move to spanner/);
});
