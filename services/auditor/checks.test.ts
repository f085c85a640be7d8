import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { deriveId } from '@triplock/payments';
import { createTestDatabase } from '@triplock/testing';
import { aScene } from '@triplock/testing/test';
import fc from 'fast-check';
import { checks, everything, findWrong, type Check, type Window } from './checks.ts';
import { ownersOf } from './test/hops.ts';
import { auditedConsumers } from './test/consumers.ts';
import { aCaptureScene, aCardScene } from './test/harm.ts';
import { harms } from './test/harms.ts';
import { wholeSystem, type System } from './test/whole-system.ts';
import { atOneMoment } from './windows.ts';

const closing: (() => Promise<void>)[] = [];
let system: System;
let find: (check: Check, window?: Window) => Promise<string[]>;
/** The names of everything that services may write. */
let readWritten: () => Promise<string[]>;
before(async () => {
  const store = await createTestDatabase({ after: (close) => void closing.push(close) });
  const auditor = store.open('triplock_auditor');
  const admin = store.open();
  system = wholeSystem(ownersOf(store));
  readWritten = async () =>
    (await admin.query<{ name: string }>(writtenSql)).map(({ name }) => name);
  find = async (check, window = everything) =>
    (await atOneMoment({ database: auditor }, (tx) => findWrong(tx, check, window))).map(
      ({ id }) => id,
    );
});
after(() => Promise.all(closing.map((close) => close())));

/**
 * What a service may write and no check compares, with what makes it harmless; `*` stands for
 * anything. A name without a sign is also that of the rows of a table.
 */
const unharmed: Readonly<Record<string, string>> = {
  'claims.*': 'guard 1 may forget or be wrong: the ledger decides again, by key and fingerprint',
  'partners.*': 'what a partner or an operator set, which is known nowhere else',
  'console.*':
    'who looks and acts there, which is known nowhere else; it says nothing of a payment',
  '*.traceparent': 'which trace it belongs to: nothing is decided by it',
  '*.refused_messages*': 'kept for people; an event of ours among them is missing elsewhere',
  '*.altered_copies.*': 'each row is drift, whatever it says',
  '*.early_events.*': 'each row is in flight, whatever it says; what it became is compared',
  '-*.early_events': 'refused by a trigger until the cursor has passed it',

  'ledger.transactions.version': 'a fence between writers: a stale one writes nothing',
  'ledger.transactions.due_at':
    'when a pending row is looked after; one that never is stays pending',
  'ledger.transactions.hold_expires_at':
    'when a hold is looked at: the provider reports its end, and no look is more than a day away',
  'ledger.transactions.next_action':
    'sealed: no other text opens, and a constraint leaves none on what is final',
  'ledger.entries.created_at': 'the time that is shown and added up is settled_at',
  'ledger.disputes.evidence_due_by':
    'words of the provider for the partner, by which nothing is done',
  'ledger.dispute_ends.ended_at': 'the time that is shown: no money and no event follow from it',
  'ledger.outbox.order_id': 'what is published out of order waits at the cursor of its consumer',
  'ledger.outbox.created_at': 'the age that is reported of what waits',
  'ledger.outbox.parked_reason': 'words for people',
  'ledger.outbox.published_at': 'when it may leave; what left is known by its copy in the evidence',
  'ledger.outbox.published_epoch': 'a fence: compared when it is written, read by nobody',
  'ledger.outbox_leases.*': 'a lease, which ends by itself; a stale epoch marks nothing',
  'ledger.outbox_owners*': 'leases share buckets by it, and forget it within a day',
  'ledger.outbox_horizon.kept_for': 'every reaper writes its own again',
  '*.only_row': 'a constraint leaves it one value',
  'ledger.provider_events*':
    'what is forgotten or known too early costs a question to the provider',
  'ledger.copied*': 'how far the copy is: a copy that lacks rows differs from its ledger in number',
  'ledger.copy_differences.*': 'each row is drift, whatever it says',

  '*.inbox.received_at': 'when it may leave; its cursor stays and knows its event',

  'auditor.accepted.kafka_*': 'where a person finds the record',
  'auditor.*.first_seen': 'the age of what is found',
  'auditor.*.last_seen': 'the age of what is found',
  'auditor.*.reason': 'words for people',
  'auditor.*.detail': 'words for people',
  'auditor.accepted_positions*': 'one too high is a loss at the next look, one too low reads again',
  'auditor.accepted_lost.*': 'each row is drift, whatever it says',
  'auditor.claims_unaccounted*':
    'the walk over the claims, begun anew when it is over, notes it again',
  'auditor.claim_walk*': 'how far the walk is; a step that was skipped is in the next walk',
  'auditor.published.copies': 'copies are allowed, and their number is for people',
  'auditor.provider_journal.created_at': 'where a walk of the list ends, which is walked anew',
  'auditor.provider_journal.seen_at': 'what is gone there is forgotten at the next whole walk',
  'auditor.provider_journal.changed_at':
    'the window that it is in: an audit of everything has no window',
  'auditor.audit_slices*': 'its hash is over all of it: slices.test.ts alters and removes one',
  'ledger.given_back*':
    'what the provider showed once: the ledger is compared with its lists themselves',
  'ledger.recalled*': 'of which payments it was asked: it is asked once more where that is lost',
  'ledger.rewinds*':
    'that it was set back: the provider is asked once more than needed, and a dispute that was not asked for is missing in the ledger',
  'ledger.continuity.*':
    'what was told and accepted is looked for there once more, or, where it was lacking, told otherwise or not in the ledger, which is seen',
  'auditor.doubted_slices*': 'a slice that is not doubted is looked at as any other',
  'auditor.full_audit.*': 'how far it is; the next one begins at the first slice',
  'auditor.provider_walks*': 'how far lists were read: what they lack is missing in the journal',
  'auditor.operator_acts*': 'what a person says of a loss, which is known nowhere else',
  'auditor.scheduled_audit.*': 'the result of the last audit, which the next one replaces',
};

/**
 * Every column that the role of a service may insert or update, as `schema.table.column`, and every
 * table whose rows it may add or remove, as `+schema.table` and `-schema.table`: by a right of its
 * own, or by calling a function of the owner that does.
 */
const writtenSql = `
  WITH services AS (
    SELECT oid FROM pg_roles WHERE rolname LIKE 'triplock\\_%'
  ), tables AS (
    SELECT pg_class.oid, nspname, relname FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p')
  ), called AS (
    SELECT DISTINCT coalesce(words[2], pg_namespace.nspname) AS nspname, words[3] AS relname,
           words[1] AS does
    FROM pg_proc
    JOIN pg_namespace ON pg_namespace.oid = pronamespace
    CROSS JOIN LATERAL regexp_matches(
      pg_get_functiondef(pg_proc.oid),
      '(INSERT INTO|UPDATE|DELETE FROM)\\s+(?:(\\w+)\\.)?(\\w+)', 'g'
    ) AS words
    WHERE prosecdef AND prokind = 'f'
      AND EXISTS (SELECT FROM services WHERE has_function_privilege(services.oid, pg_proc.oid, 'EXECUTE'))
  ), columns AS (
    SELECT tables.*, attname, EXISTS (
      SELECT FROM services
      WHERE has_column_privilege(services.oid, tables.oid, attnum, 'INSERT')
        OR has_column_privilege(services.oid, tables.oid, attnum, 'UPDATE')
    ) AS granted
    FROM tables JOIN pg_attribute ON attrelid = tables.oid
    WHERE attnum > 0 AND NOT attisdropped AND attgenerated = ''
  )
  SELECT concat_ws('.', nspname, relname, attname) AS name FROM columns
  WHERE granted OR NOT EXISTS (
      SELECT FROM columns AS others WHERE others.oid = columns.oid AND others.granted
    ) AND (nspname, relname) IN (SELECT nspname, relname FROM called)
  UNION
  SELECT '+' || concat_ws('.', nspname, relname) FROM tables
  WHERE EXISTS (SELECT FROM services WHERE has_any_column_privilege(services.oid, tables.oid, 'INSERT'))
    OR (nspname, relname, 'INSERT INTO') IN (SELECT nspname, relname, does FROM called)
  UNION
  SELECT '-' || concat_ws('.', nspname, relname) FROM tables
  WHERE EXISTS (SELECT FROM services WHERE has_table_privilege(services.oid, tables.oid, 'DELETE'))
    OR (nspname, relname, 'DELETE FROM') IN (SELECT nspname, relname, does FROM called)
  ORDER BY 1`;

test('cards that are in the journal and the ledger harm no check', async () => {
  const { paid, refund, intentId, chargeId, refundId } = await aCardScene(system);
  const { paid: held, capture, ...taken } = await aCaptureScene(system);
  const ids = [paid.txnId, refund.txnId, intentId, chargeId, refundId];
  ids.push(held.txnId, capture.txnId, taken.intentId, taken.chargeId);
  for (const check of checks) {
    const found = (await find(check)).filter((id) => ids.includes(id));
    assert.deepEqual(found, [], check.name);
  }
});

for (const check of checks) {
  const { name } = check;
  test(`${name} is seen, and its id is named`, async () => {
    for (const [nth, { of, harm }] of harms[name]!.entries()) {
      // The harm is in the window that began a moment ago, and in that of all there ever was.
      const window = { from: new Date(Date.now() - 1_000).toISOString(), until: 'infinity' };
      const scene = await aScene(system);
      const earlier = await find(check);
      const id = await harm(scene);
      for (const looked of [everything, window]) {
        const found = (await find(check, looked)).filter((each) => !earlier.includes(each));
        // What is wrong as a whole is named with its figures.
        const isNamed = found.some((each) => each === id || each.startsWith(`${id}/`));
        assert.ok(isNamed, `${of ?? 'harm'}, ${nth}: ${id} is not in [${found.join(' ')}]`);
      }
    }
  });
}

test('every check has its harms, and every harm a check', () => {
  for (const { name: consumer, harms: brought } of auditedConsumers) {
    const unknown = Object.keys(brought).filter(
      (name) => !checks.some((each) => each.name === name),
    );
    assert.deepEqual(
      unknown,
      [],
      `services/${consumer}/audit/harms.testing.ts has harms that no check sees`,
    );
  }
  assert.deepEqual(checks.map(({ name }) => name).sort(), Object.keys(harms).sort());
});

test('every column and row that a service may write has a harm, or a reason why there is none', async () => {
  const written = await readWritten();
  const harmed = new Set(Object.values(harms).flatMap((ofCheck) => ofCheck.map(({ of }) => of)));
  const [seen, unseen] = [
    written.filter((each) => harmed.has(each)),
    written.filter((each) => !harmed.has(each)),
  ];
  const excuses = (pattern: string, each: string) =>
    new RegExp(`^[+-]?${pattern.replaceAll('.', '\\.').replaceAll('*', '[^ ]*')}$`).test(each);
  const brought = auditedConsumers.flatMap((each) => Object.keys(each.unharmed));
  const patterns = [...Object.keys(unharmed), ...brought];
  const blind = unseen.filter((each) => !patterns.some((pattern) => excuses(pattern, each)));
  assert.deepEqual(blind, [], 'no harm changes these: write a check that sees it');
  const needless = patterns.filter((pattern) => !unseen.some((each) => excuses(pattern, each)));
  assert.deepEqual(needless, [], 'a reason for nothing that lacks a harm');
  const denied = seen.filter((each) => patterns.some((pattern) => pattern === each));
  assert.deepEqual(denied, [], 'these have a harm: the reason no longer holds');
});

test("the auditor's own derivation of ids agrees with the vectors and with the domain", async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const derive = async (parts: readonly string[]) => {
    const sql = 'SELECT derive_id(VARIADIC $1::text[]) AS id';
    return (await database.query<{ id: string }>(sql, [parts]))[0]!.id;
  };
  const payment = await derive(['payment', 'acme', 'order-1001']);
  assert.equal(payment, '37585521-60c9-8d90-a37f-2e1b8a7081e6');
  assert.equal(
    await derive(['refund', 'acme', 'order-1001']),
    '66b9d384-d57e-8dad-9491-3751cc7aa855',
  );
  assert.equal(
    await derive(['event', payment, 'payment.succeeded']),
    '328391a9-46c9-8809-a8b6-3591db80e499',
  );
  const text = fc.string({ unit: 'grapheme' }).map((some) => some.replaceAll('\0', ''));
  await fc.assert(
    fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 4 }), async (parts) => {
      assert.equal(await derive(parts), deriveId(...parts));
    }),
    { numRuns: 50 },
  );
});
