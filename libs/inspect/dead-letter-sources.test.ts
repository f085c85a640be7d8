import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { openTopicReader } from '@triplock/transport';
import { redrive, redriveWindow } from './dead-letter-acts.ts';
import { listDeadLetters, parseDeadLetterId, showDeadLetter } from './dead-letter-sources.ts';
import {
  addGivenUp,
  eventIds,
  paymentId,
  request,
  setAside,
  someSources,
} from './test/some-dead-letters.ts';

test('a dead letter of Kafka is listed, and redriven with its own key, bytes and headers, once', async (context) => {
  const sources = await someSources(context);
  assert.deepEqual(await listDeadLetters(sources, 'waiting'), []);
  await setAside(sources);
  const [listed] = await listDeadLetters(sources, 'waiting');
  assert.match(listed!.id, /^kafka:[01]:0$/);
  assert.deepEqual([listed!.partner, listed!.reason, listed!.redriven], ['acme', 'not_json', null]);

  const id = parseDeadLetterId(listed!.id);
  const results = await Promise.all([redrive(sources, id, request), redrive(sources, id, request)]);
  assert.deepEqual(results.map(({ outcome }) => outcome).sort(), ['redriven', 'redriven-before']);
  const { accepted: topic } = sources.topics;
  const reader = openTopicReader({ ...sources.kafka, topic });
  context.after(() => reader.close());
  const records = await reader.newest();
  assert.deepEqual(
    records.map(({ key, value, headers }) => [key, value, headers]),
    [
      [
        Buffer.from('a key'),
        Buffer.from([0, 255, 7]),
        { partner_id: Buffer.from('acme'), 'dead-letter.reason': Buffer.from('its own') },
      ],
    ],
  );
  assert.equal((await redrive(sources, id, { ...request, again: true })).outcome, 'redriven');
  const [known] = await listDeadLetters(sources, 'waiting');
  assert.deepEqual([known?.redriven?.by, known?.redriven?.why], ['ada', 'mended']);
});

test('a parked event and its payment’s later ones wait again, in order', async (context) => {
  const sources = await someSources(context);
  for (const [n, eventId] of eventIds.entries()) {
    await sources.database.query(
      `INSERT INTO ledger.outbox (event_id, event_type, txn_id, payment_id, partner_id, bucket,
         sequence, payload, traceparent, state, parked_reason)
       VALUES ($1, 'payment.succeeded', $2::uuid, $2::uuid, 'acme', 0, $3, '{}', 't', 'parked', $4)`,
      [eventId, paymentId, n + 1, n === 0 ? 'too large' : `behind ${eventIds[0]}`],
    );
  }
  const id = parseDeadLetterId(`outbox:${eventIds[0]}`);
  const listed = await listDeadLetters(sources, 'waiting');
  assert.deepEqual(
    listed.map(({ id: each, reason }) => [each, reason]),
    [[`outbox:${eventIds[0]}`, 'too large']],
  );
  const shown = (await showDeadLetter(sources, id)) as { events: { event_id: string }[] };
  assert.deepEqual(
    shown.events.map((event) => event.event_id),
    eventIds,
  );
  const first = await redrive(sources, id, request);
  assert.deepEqual(first.outcome === 'redriven' && first.ids.sort(), eventIds);
  assert.equal((await redrive(sources, id, request)).outcome, 'redriven-before');
  const states = await sources.database.query('SELECT DISTINCT state FROM ledger.outbox');
  assert.deepEqual(states, [{ state: 'pending' }]);
  assert.deepEqual(await listDeadLetters(sources, 'waiting'), []);
});

test('a webhook that was given up is due again with all its time', async (context) => {
  const sources = await someSources(context);
  await addGivenUp(sources);
  const id = parseDeadLetterId(`webhook:${eventIds[0]}`);
  assert.equal(
    (await listDeadLetters(sources, 'waiting'))[0]?.reason,
    'given up after 9 attempts, ECONNREFUSED',
  );
  assert.equal((await redrive(sources, id, request)).outcome, 'redriven');
  const rows = await sources.database.query(
    'SELECT state, attempts, first_attempt_at, next_attempt_at <= now() AS due FROM webhooks.deliveries',
  );
  assert.deepEqual(rows, [{ state: 'pending', attempts: 9, first_attempt_at: null, due: true }]);
});

test('webhooks of a partner’s window are due again, each recorded, and a second time nothing is done', async (context) => {
  const sources = await someSources(context);
  const { database } = sources;
  const add = (partner: string, day: string, state: string) =>
    database.query(
      `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, attempts,
         first_attempt_at, created_at, finished_at)
       SELECT gen_random_uuid(), $1, gen_random_uuid(), '{}', $3, 9, $2, $2,
              CASE $3 WHEN 'parked' THEN NULL ELSE $2::timestamptz + interval '1 day' END
       FROM generate_series(1, 3)`,
      [partner, day, state],
    );
  await add('acme', '2026-03-01T10:00Z', 'failed');
  await add('acme', '2026-03-02T10:00Z', 'failed');
  await add('acme', '2026-03-01T10:00Z', 'delivered');
  await add('acme', '2026-03-01T10:00Z', 'parked');
  await add('globex', '2026-03-01T10:00Z', 'failed');
  const window = {
    partner: 'acme',
    since: new Date('2026-03-01'),
    until: new Date('2026-03-02T10:00:00Z'),
  };
  const actor = { by: 'ada', why: 'its server is back' };
  const twice = [
    await redriveWindow(sources, window, actor),
    await redriveWindow(sources, window, actor),
  ];
  assert.deepEqual(twice, [3, 0]);
  const due = await database.query(
    `SELECT deliveries.partner_id, created_at, first_attempt_at, count(*)::int
     FROM webhooks.deliveries
     JOIN auditor.operator_acts ON subject = 'webhook:' || event_id AND done_by = 'ada'
       AND why = 'its server is back'
     WHERE state = 'pending' AND next_attempt_at <= now() GROUP BY 1, 2, 3`,
  );
  assert.deepEqual(due, [
    {
      partner_id: 'acme',
      created_at: new Date('2026-03-01T10:00:00Z'),
      first_attempt_at: null,
      count: 3,
    },
  ]);
  // Two at once share what is left: each webhook is redriven by one of them.
  const all = [window.partner, window.partner].map((partner) =>
    redriveWindow(sources, { partner }, actor),
  );
  assert.deepEqual(
    (await Promise.all(all)).reduce((one, other) => one + other),
    3,
  );
  const [acts] = await database.query<{ count: number }>(
    'SELECT count(*)::int FROM auditor.operator_acts',
  );
  assert.equal(acts!.count, 6);
});

test('a transaction that has been pending for long is listed, and redriven it is due at once', async (context) => {
  const sources = await someSources(context);
  const { database } = sources;
  const ago = (span: string) => `now() - interval '${span}'`;
  const insert = (id: string, age: string, intent: string) =>
    database.query(
      `INSERT INTO ledger.transactions (txn_id, kind, partner_id, idempotency_key, fingerprint,
         response_version, payment_method, created_at, amount, currency, state, events, due_at,
         provider, provider_intent_id)
       VALUES ($1::uuid, 'payment', 'acme', $1::uuid::text, sha256('x'), 1, 'pm_card_visa', ${age}, 100, 'EUR',
         'pending', 0, now() + interval '1 minute', 'stripe', ${intent})`,
      [id],
    );
  const [stuck, young, withCustomer] = eventIds as [string, string, string];
  const [held, heldTooLong] = [randomUUID(), randomUUID()];
  await insert(stuck, ago('3 hours'), 'NULL');
  await insert(young, ago('30 minutes'), 'NULL');
  // Its customer may authenticate for 24 hours.
  await insert(withCustomer, ago('3 hours'), `'stripe'`);
  await database.query(
    `INSERT INTO auditor.provider_journal
       (provider, kind, id, status, waits_for, amount, currency, created_at, txn_id, partner_id)
     VALUES ('stripe', 'intent', 'stripe', 'pending', 'customer', 100, 'EUR', now(), $1, 'acme'),
            ('stripe', 'intent', 'held', 'pending', 'partner', 100, 'EUR', now(), $2, 'acme'),
            ('stripe', 'intent', 'held-too-long', 'pending', 'partner', 100, 'EUR', now(), $3, 'acme')`,
    [withCustomer, held, heldTooLong],
  );
  // Its partner may capture it for seven days.
  await insert(held, ago('7 days'), `'held'`);
  await insert(heldTooLong, ago('193 hours'), `'held-too-long'`);
  const listed = await listDeadLetters(sources, 'waiting');
  assert.deepEqual(
    listed.map(({ id, about, reason }) => [id, about, reason]),
    [
      [`transaction:${heldTooLong}`, heldTooLong, 'pending for 193 hours'],
      [`transaction:${stuck}`, stuck, 'pending for 3 hours'],
    ],
  );
  const id = parseDeadLetterId(`transaction:${stuck}`);
  assert.ok(await showDeadLetter(sources, id));
  assert.equal((await redrive(sources, id, request)).outcome, 'redriven');
  const due = await database.query('SELECT txn_id FROM ledger.transactions WHERE due_at <= now()');
  assert.deepEqual(due, [{ txn_id: stuck }]);
});

test('what is not there is not redriven, and nothing is recorded', async (context) => {
  const sources = await someSources(context);
  const rows = ['outbox', 'webhook', 'transaction'].map((source) => `${source}:${eventIds[0]}`);
  for (const id of ['kafka:0:7', 'refused:auditor:7', ...rows]) {
    assert.deepEqual(await redrive(sources, parseDeadLetterId(id), request), {
      outcome: 'not-found',
    });
    assert.equal(await showDeadLetter(sources, parseDeadLetterId(id)), undefined);
  }
  assert.deepEqual(await sources.database.query('SELECT FROM auditor.operator_acts'), []);
});

test('an act stays as it was recorded', async (context) => {
  const { database } = await someSources(context);
  for (const change of [
    `UPDATE auditor.operator_acts SET why = 'x'`,
    'DELETE FROM auditor.operator_acts',
  ]) {
    await assert.rejects(database.query(change), /history is only added to/);
  }
});

test('only ids of dead letters are taken', () => {
  for (const text of [
    '',
    'kafka:1',
    'kafka:-1:0',
    'outbox:1',
    'stripe:1',
    'refused:auditor',
    'refused:Auditor:1',
    'refused:auditor:1 2',
    `webhook:${paymentId}x`,
  ]) {
    assert.throws(() => parseDeadLetterId(text), /is no dead letter/);
  }
});
