import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { newKey, openWebhookReceiver, sendTo } from '../test/partner.ts';
import { endpoint, planted, refused, submitted, traceId, traceparent } from '../test/secrets.ts';
import { type StoredSpan, type TraceStore, openTraceStore, startTraced } from '../test/traces.ts';

const folder = new URL('../../.triplock/traces/', import.meta.url);

const payment = {
  amount: 1200,
  currency: 'EUR',
  payment_method: 'pm_card_visa',
  description: submitted.description,
  reference: submitted.reference,
  metadata: { [submitted.metadataName]: submitted.metadataValue },
};

/** How a hop is found, and the hop within which it has to be; more than once where it says so. */
type Hop = { service: string; name: RegExp; within?: string; times?: number };

/** Each hop of a card payment whose first webhook is refused. */
const hops: Record<string, Hop> = {
  HTTP: { service: 'ingest-gateway', name: /^POST \/v1\/payments$/ },
  claim: { service: 'ingest-gateway', name: /^claimRecord$/, within: 'HTTP' },
  'to Kafka': { service: 'ingest-gateway', name: /^send test\./, within: 'HTTP' },
  'from Kafka': { service: 'ledger-worker', name: /^process test\./, within: 'to Kafka' },
  charged: { service: 'ledger-worker', name: /^stripe charge$/, within: 'from Kafka' },
  Stripe: { service: 'ledger-worker', name: /^POST$/, within: 'charged' },
  settled: { service: 'ledger-worker', name: /^settle-payment$/, within: 'from Kafka' },
  'into the outbox': {
    service: 'ledger-worker',
    name: /^append-settlements$/,
    within: 'settled',
  },
  'out of the outbox': {
    service: 'outbox-dispatcher',
    name: /^publish outbox event$/,
    within: 'from Kafka',
  },
  'from Pub/Sub': {
    service: 'partner-notifier',
    name: /^process test-/,
    within: 'out of the outbox',
  },
  // The second attempt, which is made of the delivery's row.
  webhook: {
    service: 'partner-notifier',
    name: /^deliver webhook$/,
    within: 'from Pub/Sub',
    times: 2,
  },
  'webhook sent': { service: 'partner-notifier', name: /^POST$/, within: 'webhook', times: 2 },
};

/** What is done for many payments at once, in traces of their own. */
const batches = [
  /^send batch test\./,
  /^process batch /,
  /^post batch$/,
  /^publish batch$/,
  /^admit events$/,
  /^record attempts$/,
];

/** What each guard says of a payment that it sees for the first time. */
const guards = { claim: 'claimed', ledger: 'posted', inbox: 'applied' };

test('one card payment is one trace through every hop, and says nothing that is nobody’s business', async (t) => {
  const [store, receiver] = await Promise.all([openTraceStore(), openWebhookReceiver()]);
  t.after(async () => void (await Promise.all([store.close(), receiver.close()])));
  receiver.answer = (received) => ({ status: received === 1 ? 500 : 204 });
  const payer = {
    apiKey: planted('api_key'),
    webhookUrl: `${receiver.url}/${planted('path')}?token=${endpoint.token}`,
    webhookSecret: `whsec_${Buffer.from(planted('webhook_secret').padEnd(32)).toString('base64')}`,
  };
  const { gateway, finish } = await startTraced(t, { traces: store.url, payer });
  const authorization = `Bearer ${payer.apiKey}`;
  const pay = { method: 'POST', path: '/v1/payments', key: submitted.key, body: payment };
  const paid = await sendTo(gateway, { ...pay, headers: { authorization, traceparent } });
  assert.equal(paid.status, 202);
  const { id: txnId } = JSON.parse(paid.body) as { id: string };
  assert.equal((await sendTo(gateway, { ...pay, headers: { authorization } })).body, paid.body);
  await sendTo(gateway, {
    path: `/v1/${refused.queryKey}?${newKey()}`,
    headers: { authorization },
  });
  await eventually(async () => receiver.received.length >= 2);
  await finish();

  const spans = store.spans();
  const first = spans.find(
    ({ attributes: { 'triplock.guard.claim': word } }) => word === 'claimed',
  );
  assert.ok(first, 'a span shows the claim');
  const trace = spans.filter((span) => span.traceId === first.traceId);
  await keep(store, first.traceId);

  findHops(trace);
  const ids = new Set(trace.map(({ spanId }) => spanId));
  const roots = trace.filter(({ parentSpanId }) => !ids.has(parentSpanId ?? ''));
  assert.deepEqual(
    roots.map(({ name, parentSpanId }) => [name, parentSpanId]),
    [['POST /v1/payments', undefined]],
  );
  for (const [guard, word] of Object.entries(guards)) {
    const outcomes = trace.map(({ attributes }) => attributes[`triplock.guard.${guard}`]);
    assert.ok(outcomes.includes(word), `${guard}: ${outcomes.join(' ')}`);
  }
  assert.ok(trace.some(({ attributes }) => attributes['triplock.txn_id'] === txnId));

  // A partner's own trace is linked to, and is never ours.
  assert.deepEqual(roots[0]!.links, [traceId]);
  assert.ok(spans.every((span) => span.traceId !== traceId));
  // Its retry is another request.
  const replay = spans.find(
    ({ attributes: { 'triplock.guard.claim': word } }) => word === 'completed',
  );
  assert.ok(replay !== undefined && replay.traceId !== first.traceId);

  for (const name of batches) {
    const some = spans.filter((span) => name.test(span.name));
    assert.ok(some.length > 0, String(name));
    for (const { links, parentSpanId, traceId: own } of some) {
      assert.deepEqual([links, parentSpanId], [[first.traceId], undefined], String(name));
      assert.notEqual(own, first.traceId);
    }
  }
  assert.deepEqual(secretsIn(store.bodies.join('\n'), payer), []);
});

/** Fails unless every hop is there, within the hop that caused it. */
function findHops(trace: readonly StoredSpan[]): void {
  const byId = new Map(trace.map((span) => [span.spanId, span]));
  const found = new Map<string, StoredSpan[]>();
  const ancestors = (span: StoredSpan): StoredSpan[] => {
    const parent = byId.get(span.parentSpanId ?? '');
    return parent === undefined ? [] : [parent, ...ancestors(parent)];
  };
  for (const [hop, { service, name, within, times = 1 }] of Object.entries(hops)) {
    const outer = within === undefined ? undefined : found.get(within);
    const spans = trace.filter(
      (span) =>
        span.service === service &&
        name.test(span.name) &&
        (outer === undefined || ancestors(span).some((each) => outer.includes(each))),
    );
    // Not exactly: a broker may deliver again, and that is in the trace too.
    assert.ok(spans.length >= times, `${hop}: ${trace.map((span) => span.name).join(', ')}`);
    found.set(hop, spans);
  }
}

/** Secrets, card data, what partners send, and statements are in no span, whoever made it. */
function secretsIn(everything: string, payer: object): string[] {
  const secrets = { ...payer, ...submitted, ...refused, ...endpoint, path: planted('path') };
  const others = { sql: 'INSERT INTO', stripeKey: 'sk_test_', card: 'pm_card', role: 'triplock_' };
  return Object.entries({ ...secrets, ...others })
    .filter(([, text]) => everything.includes(text))
    .map(([what]) => what);
}

/** Left for people: viewers of traces open it as a file. */
async function keep(store: TraceStore, id: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const json = JSON.stringify(store.traceAsOtlp(id), undefined, 2);
  await writeFile(new URL('one-card-payment.json', folder), `${json}\n`);
}
