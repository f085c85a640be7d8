import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { EventId, Fingerprint, IdempotencyKey, PartnerId } from '@triplock/payments';
import { DoneTooOftenError } from './done-too-often.ts';
import type { RedeliveryOrder, RedeliveryOutcome } from './webhook-deliveries.ts';
import { acme, delivered, eventId, failed, store } from './test/webhook-deliveries.ts';

const day = '2026-03-01';

/** Deliveries that were made at times of one day, and a hand to order them again. */
async function aDay(context: TestContext) {
  const parts = await store(context);
  const owner = parts.open();
  const addAt = async (times: Readonly<Record<string, readonly EventId[]>>, partner = 'acme') => {
    for (const [time, ids] of Object.entries(times)) {
      await parts.add(ids, partner);
      const made = `${day}T${time}Z`;
      await owner.query(
        `UPDATE webhooks.deliveries SET created_at = $2, state = 'delivered', finished_at = now()
         WHERE event_id = ANY ($1)`,
        [ids, made],
      );
    }
  };
  const order = (change: Partial<RedeliveryOrder> = {}): Promise<RedeliveryOutcome> =>
    parts.deliveries.redeliverWindow({
      partnerId: acme,
      key: 'k1' as IdempotencyKey,
      fingerprint: 'f1' as Fingerprint,
      since: `${day}T00:00:00Z`,
      until: `${day}T23:59:59Z`,
      limit: 100,
      ...change,
    });
  const due = async () => {
    const rows = await owner.query<{ event_id: EventId }>(
      `SELECT event_id FROM webhooks.deliveries
       WHERE state = 'pending' AND next_attempt_at <= now() AND first_attempt_at IS NULL
         AND finished_at IS NULL
       ORDER BY created_at, event_id`,
    );
    return rows.map((row) => row.event_id);
  };
  const acts = () =>
    owner.query<Record<string, unknown>>('SELECT * FROM webhooks.redelivery_acts ORDER BY act_id');
  return { ...parts, owner, addAt, order, due, acts };
}

const keyed = (key: string, fingerprint = 'f1') => {
  return { key: key as IdempotencyKey, fingerprint: fingerprint as Fingerprint };
};

test('what was made in the window is due again, and nobody else’s', async (context) => {
  const { addAt, order, due, acts } = await aDay(context);
  const [before, first, last, after] = [eventId(1), eventId(2), eventId(3), eventId(4)];
  await addAt({ '09:59:59.999999': [before], '10:00:00': [first] });
  await addAt({ '10:59:59.999999': [last], '11:00:00': [after] });
  await addAt({ '10:30:00': [eventId(5, 'globex')] }, 'globex');
  const window = { since: `${day}T10:00:00Z`, until: `${day}T12:00:00+01:00` };
  const outcome = await order(window);
  const redelivery = {
    since: `${day}T10:00:00.000000Z`,
    until: `${day}T11:00:00.000000Z`,
    state: null,
    deliveries: 2,
    nextSince: null,
  };
  assert.deepEqual(outcome, { outcome: 'redelivered', redelivery });
  assert.deepEqual(await due(), [first, last]);
  const [row, ...more] = await acts();
  const { act_id: _, done_at: at, ...act } = row!;
  assert.ok(at instanceof Date && more.length === 0);
  assert.deepEqual(act, {
    partner_id: 'acme',
    idempotency_key: 'k1',
    fingerprint: 'f1',
    state: null,
    since: new Date(window.since),
    until: new Date(window.until),
    deliveries: 2,
    next_since: null,
  });
});

test('a key makes a window due once, also when its requests come at the same time', async (context) => {
  const { addAt, order, due, acts, change } = await aDay(context);
  await addAt({ '10:00:00': [eventId(1), eventId(2)] });
  const outcomes = await Promise.all(Array.from({ length: 6 }, () => order()));
  const found = outcomes.map(({ outcome }) => outcome).sort();
  assert.deepEqual(found, ['redelivered', ...Array.from({ length: 5 }, () => 'replayed')]);
  const answers = new Set(
    outcomes.map((each) => 'redelivery' in each && JSON.stringify(each.redelivery)),
  );
  assert.equal(answers.size, 1);
  assert.equal((await due()).length, 2);

  for (const id of [eventId(1), eventId(2)]) await change(id, delivered);
  assert.equal((await order()).outcome, 'replayed');
  assert.deepEqual(await order(keyed('k1', 'f2')), { outcome: 'reused' });
  assert.deepEqual(await due(), []);
  assert.equal((await acts()).length, 1);
  // Keys are the partner's own, and another key is another act.
  assert.equal((await order({ partnerId: 'globex' as PartnerId })).outcome, 'redelivered');
  assert.equal((await order(keyed('k2'))).outcome, 'redelivered');
  assert.equal((await due()).length, 2);
});

test('a filter takes what became of them, and what is being sent is left to its sender', async (context) => {
  const { addAt, order, due, change, owner } = await aDay(context);
  const [given, done, sent, waits] = [eventId(1), eventId(2), eventId(3), eventId(4)];
  await addAt({ '10:00:00': [given, done, sent, waits] });
  await change(given, failed);
  const pending = `state = 'pending', finished_at = NULL, next_attempt_at = now() + interval '1 hour'`;
  await change(sent, `${pending}, lease_owner = 'a'`);
  await change(waits, pending);
  const taken = async (key: string, state: 'failed' | 'pending' | 'delivered') => {
    const outcome = await order({ ...keyed(key), state });
    assert.ok(outcome.outcome === 'redelivered');
    return outcome.redelivery.deliveries;
  };
  const sender = () => owner.query('SELECT * FROM webhooks.deliveries WHERE event_id = $1', [sent]);
  const before = await sender();
  assert.equal(await taken('failed', 'failed'), 1);
  assert.deepEqual(await due(), [given]);
  assert.equal(await taken('pending', 'pending'), 2);
  assert.deepEqual(new Set(await due()), new Set([given, waits]));
  assert.equal(await taken('delivered', 'delivered'), 1);
  assert.deepEqual(new Set(await due()), new Set([given, waits, done]));
  assert.deepEqual(await sender(), before);
});

test('a long window is taken in acts that follow one another without gap or repeat', async (context) => {
  const { addAt, order, acts, due } = await aDay(context);
  const ids = Array.from({ length: 9 }, (_, n) => eventId(n));
  // Three of one microsecond are where the first act would end between them.
  await addAt({ '10:00:00.000001': ids.slice(0, 1), '10:00:00.000002': ids.slice(1, 4) });
  await addAt({ '10:00:00.000003': ids.slice(4, 6), '11:00:00': ids.slice(6) });
  const counts: number[] = [];
  for (let since: string | null = `${day}T10:00:00Z`; since !== null;) {
    const outcome: RedeliveryOutcome = await order({ ...keyed(since), since, limit: 2 });
    assert.ok(outcome.outcome === 'redelivered');
    counts.push(outcome.redelivery.deliveries);
    since = outcome.redelivery.nextSince;
  }
  assert.deepEqual(counts, [4, 2, 3]);
  assert.equal((await acts()).length, 3);
  assert.deepEqual(new Set(await due()), new Set(ids));
});

test('a window that is none or too long does nothing and uses no key', async (context) => {
  const { addAt, order, due, acts, deliveries } = await aDay(context);
  await addAt({ '10:00:00': [eventId(1)] });
  const noon = `${day}T12:00:00Z`;
  for (const [since, until, outcome] of [
    [noon, noon, 'empty-window'],
    [noon, `${day}T11:59:59.999999Z`, 'empty-window'],
    [noon, '2026-04-01T12:00:00.000001Z', 'wide-window'],
  ] as const) {
    assert.deepEqual(await order({ since, until }), { outcome }, `${since} – ${until}`);
  }
  const untilNow = (since: string) =>
    deliveries.redeliverWindow({ ...keyed('now'), partnerId: acme, since, limit: 100 });
  assert.deepEqual(await untilNow('9999-12-31T23:59:59Z'), { outcome: 'empty-window' });
  assert.deepEqual(await untilNow('2020-01-01T00:00:00Z'), { outcome: 'wide-window' });
  assert.deepEqual([await due(), await acts()], [[], []]);
  const whole = { since: noon, until: '2026-04-01T12:00:00Z' };
  assert.equal((await order(whole)).outcome, 'redelivered');

  // A retry is answered although its window has grown too long meanwhile.
  assert.equal(
    (await untilNow(new Date(Date.now() - 60_000).toISOString())).outcome,
    'redelivered',
  );
  assert.equal((await untilNow('2020-01-01T00:00:00Z')).outcome, 'replayed');
});

test('an act is kept as it is, and only the gateway acts, by the function alone', async (context) => {
  const { addAt, order, owner, gateway, notifier } = await aDay(context);
  await addAt({ '10:00:00': [eventId(1)] });
  await order();
  for (const change of [
    'UPDATE webhooks.redelivery_acts SET deliveries = 0',
    'DELETE FROM webhooks.redelivery_acts',
    'TRUNCATE webhooks.redelivery_acts',
  ]) {
    await assert.rejects(owner.query(change), /history is only added to/, change);
  }
  const call = `SELECT FROM webhooks.redeliver_window('acme', 'k', 'f', now(), now(), NULL, 1)`;
  await assert.rejects(notifier.query(call), /permission denied/);
  for (const role of [gateway, notifier]) {
    await assert.rejects(role.query('SELECT FROM webhooks.redelivery_acts'), /permission denied/);
  }
});

test('a partner orders a thousand windows within a day, is answered retries, and stops nobody else', async (context) => {
  const { addAt, order, owner, acts } = await aDay(context);
  await addAt({ '10:00:00': [eventId(1)] });
  assert.equal((await order(keyed('first'))).outcome, 'redelivered');
  await owner.query(
    `INSERT INTO webhooks.redelivery_acts
       (partner_id, idempotency_key, fingerprint, since, until, deliveries, done_at)
     SELECT 'acme', 'n' || n, 'f1', now(), now(), 0,
            now() - CASE WHEN n <= 998 THEN interval '1 hour' ELSE interval '25 hours' END
     FROM generate_series(1, 1500) AS n`,
  );
  assert.equal((await order(keyed('last'))).outcome, 'redelivered');
  await assert.rejects(order(keyed('one more')), DoneTooOftenError);
  assert.equal((await order(keyed('first'))).outcome, 'replayed');
  assert.equal((await order({ partnerId: 'globex' as PartnerId })).outcome, 'redelivered');
  assert.equal((await acts()).length, 1_503);
});
