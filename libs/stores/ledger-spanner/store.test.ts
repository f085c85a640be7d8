import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bookTransferOf } from '@triplock/ledger/test';
import { readSettings } from '@triplock/runtime';
import { aPayment, testNamespace } from '@triplock/testing';
import { dropFromEmulator } from './spanner/schema.ts';
import { spannerLedgerStore } from './store.ts';
import { testSpanner } from './test/emulator.ts';

test('a ledger is made where it may be, and one that its server forgot is not made anew in silence', async (t) => {
  const { apart, settings, settingsAt } = spannerLedgerStore;
  const emulatorHost = await testSpanner();
  const given = readSettings(settingsAt({ spanner: emulatorHost }, testNamespace()), settings);
  const address = { database: apart.addressIn(given), emulatorHost };
  assert.equal(await apart.provision(given, { mayMake: false }), 'gone');
  assert.equal(await apart.provision(given, { mayMake: false }), 'gone', 'it was made');
  assert.equal(await apart.provision(given, { mayMake: true }), 'made');
  t.after(() => dropFromEmulator(address));
  for (const mayMake of [true, false]) {
    assert.equal(await apart.provision(given, { mayMake }), 'there');
  }
  assert.ok((await apart.migrate(given)).length > 0);
  assert.deepEqual(await apart.migrate(given), []);
});

/** It is in a database of its own. */
const notHere = () => assert.fail('PostgreSQL was asked for');

test('what a ledger is set back to is what it was, and nothing that came since', async (t) => {
  const { apart, open, settings, settingsAt } = spannerLedgerStore;
  const emulatorHost = await testSpanner();
  const given = readSettings(settingsAt({ spanner: emulatorHost }, testNamespace()), settings);
  await apart.provision(given, { mayMake: true });
  t.after(() => dropFromEmulator({ database: apart.addressIn(given), emulatorHost }));
  await apart.migrate(given);
  const inspector = await apart.inspect(given);
  t.after(() => inspector.close());
  const ports = await open(given, { openPostgres: notHere });
  t.after(() => ports.outbox.close());
  const [before, since] = [aPayment(), aPayment()];
  await ports.ledger.post([bookTransferOf(before)]);
  const setBack = await inspector.remember();
  await ports.ledger.post([bookTransferOf(since)]);
  const ids = [before.txnId, since.txnId];
  assert.deepEqual((await inspector.has(ids)).toSorted(), ids.toSorted());
  await setBack();
  assert.deepEqual(await inspector.has(ids), [before.txnId]);
});
