import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import { actNames } from '../acts/kinds-of-acts.ts';
import { describeConsole } from './openapi.ts';
import { routes } from '../routes.ts';
import { aConsole, assertDescribed } from '../test/a-console.ts';

const idOf = (kind: 'payment' | 'refund', key: string) =>
  deriveTxnId(kind, 'acme' as PartnerId, key as IdempotencyKey);
const [payment, refund] = [idOf('payment', 'key-1'), idOf('refund', 'key-2')];
const event = '8f3d2c10-5b1e-4d0a-9c7e-2f6a1b3c4d5e';

/** One of everything, as if services had written it; by the owner, past what forbids it. */
const rows = [
  `INSERT INTO partners.partners (id, card_numbers_in) VALUES ('acme', '{reference}')`,
  `INSERT INTO partners.api_keys (sha256, partner_id, prefix)
   VALUES (sha256('a'), 'acme', 'tl_abc'), (sha256('b'), 'acme', NULL)`,
  `INSERT INTO partners.webhook_endpoints (partner_id, url, host, secrets)
   VALUES ('acme', 'https://acme.example/hooks', 'acme.example', '[{"id":"1","key":"a","box":"b"}]')`,
  `INSERT INTO ledger.transactions (txn_id, kind, partner_id, idempotency_key, fingerprint,
     response_version, created_at, amount, currency, state, settled_at, events, reference, payment_method,
     provider, provider_intent_id, provider_charge_id)
   VALUES ('${payment}', 'payment', 'acme', 'key-1', sha256('a'), 3, now(), 1250, 'EUR', 'succeeded',
     now(), 1, 'order-1', 'pm_card_visa', 'stripe', 'pi_1', 'ch_1')`,
  `INSERT INTO ledger.transactions (txn_id, kind, payment_id, partner_id, idempotency_key,
     fingerprint, response_version, created_at, state, settled_at, events, failure_code)
   VALUES ('${refund}', 'refund', '${payment}', 'acme', 'key-2', sha256('b'), 3, now(), 'failed', now(), 1,
     'amount_exceeds_refundable')`,
  `INSERT INTO ledger.entries (txn_id, debit_account, credit_account, amount, currency)
   VALUES ('${payment}', 'a', 'b', 1250, 'EUR')`,
  `INSERT INTO ledger.outbox (event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence,
     payload, traceparent, state, published_at, published_epoch)
   VALUES ('${event}', 'payment.succeeded', '${payment}', '${payment}', 'acme', 1, 1, '{}',
     '00-${'a'.repeat(32)}-${'b'.repeat(16)}-01', 'published', now(), 1)`,
  `INSERT INTO ledger.disputes (txn_id, dispute_id, id, partner_id, sequence, amount, reason,
     created_at)
   VALUES ('${payment}', 'du_1', gen_random_uuid(), 'acme', 2, 1250, 'fraudulent', now())`,
  `INSERT INTO auditor.published (event_id, event_type, txn_id, payment_id, partner_id, payload_hash)
   VALUES ('${event}', 'payment.succeeded', '${payment}', '${payment}', 'acme', '')`,
  `INSERT INTO auditor.accepted (txn_id, fingerprint, kind, partner_id, currency, amount, rest,
     kafka_partition, kafka_offset)
   VALUES ('${payment}', sha256('a'), 'payment', 'acme', 'EUR', 1250, sha256('a'), 1, 7)`,
  `INSERT INTO auditor.provider_journal (provider, kind, id, status, amount, currency, created_at, txn_id)
   VALUES ('stripe', 'intent', 'pi_1', 'succeeded', 1250, 'EUR', now(), '${payment}')`,
  `INSERT INTO auditor.dead_letters (topic, kafka_partition, kafka_offset, reason, txn_id, fingerprint)
   VALUES ('dead', 0, 1, 'key-conflict', '${payment}', sha256('c'))`,
  `INSERT INTO auditor.accepted_lost (topic, kafka_partition, from_offset, to_offset, why, whole_at)
   VALUES ('accepted', 0, 1, 2, 'dropped', now())`,
  `INSERT INTO auditor.audit_slices (nth, from_time, until_time, counts, sums, hash)
   VALUES (1, now() - interval '1 hour', now(), '{}', '{}', sha256('a'))`,
  `UPDATE auditor.scheduled_audit SET ended_at = now(), took_ms = 5, drift = '{"a-check": 1}',
     in_flight = '{"a-check": 1}', in_flight_since = '{"a-check": "2026-11-20T08:00:00Z"}'`,
  `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, attempts, finished_at,
     first_attempt_at, last_error)
   VALUES ('${event}', 'acme', '${payment}', '{"type":"payment.succeeded"}', 'failed', 1, now(), now(), 'E')`,
  `INSERT INTO webhooks.delivery_attempts (event_id, attempt, error, took_ms)
   VALUES ('${event}', 1, 'ECONNREFUSED', 4)`,
  `INSERT INTO notifier.refused_messages (consumer, message_id, reason, detail, data, attributes)
   VALUES ('partner-notifier', '1', 'malformed', 'no JSON', 'x', '{}')`,
  `INSERT INTO partners.settlement_batches (partner_id, day, currency, gross, refunds, payments, refund_count)
   VALUES ('acme', current_date, 'EUR', 1250, 0, 1, 0)`,
];

async function fill(owner: { transaction<R>(work: (tx: Queryable) => Promise<R>): Promise<R> }) {
  await owner.transaction(async (tx) => {
    await tx.query('SET LOCAL session_replication_role = replica');
    for (const row of rows) await tx.query(row);
  });
}

test('every answer of the API is as its document says, with something of everything', async (t) => {
  const nowhere = 'ingest-gateway-1=http://127.0.0.1:1';
  const { ask, origin } = await aConsole(t, async (store) => {
    await fill(store.open());
    return { CONSOLE_LOGIN: 'none', PROCESS_URLS: nowhere };
  });
  const { csrf } = JSON.parse((await ask('/api/v1/session')).text) as { csrf: string };
  const body = { csrf, partner: 'globex', reason: 'new' };
  const act = { method: 'POST', headers: { origin }, body };
  const added = await ask('/api/v1/acts/partners.add', act);
  assertDescribed({ method: 'POST', path: '/api/v1/acts/partners.add' }, added);
  assert.equal(added.status, 200, added.text);
  const exempt = { ...act, body: { ...body, allowed: 'yes' } };
  assert.equal((await ask('/api/v1/acts/partners.card-numbers', exempt)).status, 200);
  const { id } = JSON.parse(added.text) as { id: number };
  const targets: Readonly<Record<string, readonly string[]>> = {
    '/api/v1/payments': ['/api/v1/payments', '/api/v1/payments?partner=acme&currency=EUR&least=1'],
    '/api/v1/payments/find': ['/api/v1/payments/find?q=order-1', '/api/v1/payments/find?q=pi_1'],
    '/api/v1/payments/:id': [payment, refund].map((each) => `/api/v1/payments/${each}`),
    '/api/v1/dead-letters/:id': [`/api/v1/dead-letters/webhook:${event}`],
    '/api/v1/acts/:id': [`/api/v1/acts/${id}`],
    // What the layers themselves say is asked for by parts-away.test.ts.
    '/api/v1/payments/:id/layers': [],
  };
  for (const { method, path } of routes.filter((each) => each.path.startsWith('/api/'))) {
    if (method === 'POST') continue;
    for (const target of targets[path] ?? [path]) {
      const answered = await ask(target);
      assert.equal(answered.status, 200, `${target}: ${answered.text}`);
      assertDescribed({ method, path }, answered);
      // A list that nobody filled would be as any schema says; nothing follows a refund.
      if (target.includes(refund)) continue;
      assert.doesNotMatch(answered.text, /"(?!unasked|hour|runs)\w+":\[\]/, target);
    }
  }
});

test('the document describes every path and every act, and every reference leads somewhere', async (t) => {
  const text = await describeConsole();
  const { paths, components } = JSON.parse(text) as {
    paths: Record<string, unknown>;
    components: { schemas: object; headers: object };
  };
  for (const name of actNames) assert.ok(paths[`/api/v1/acts/${name}`], name);
  for (const [, kind, name] of text.matchAll(/"\$ref": "#\/components\/(\w+)\/(\w+)"/g)) {
    assert.ok(name! in components[kind as keyof typeof components], `${kind} ${name}`);
  }
  const { ask } = await aConsole(t);
  const served = await ask('/openapi.json');
  assert.equal(served.status, 200, 'by nobody, who then knows how to log in');
  assert.deepEqual(JSON.parse(served.text), JSON.parse(text));
  for (const path of ['/openapi.json', '/assets/console.css']) {
    const { headers } = await ask(path);
    const again = await ask(path, { headers: { 'if-none-match': String(headers['etag']) } });
    assert.deepEqual([again.status, again.text], [304, ''], path);
  }
});
