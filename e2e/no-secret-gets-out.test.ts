import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { topics } from '@triplock/contracts';
import { readLogs, thisMachineFor } from '@triplock/launcher';
import { eventually, stripeControl } from '@triplock/testing';
import { command, home, onTheSystem } from './test/system.ts';
import {
  deleteEndpoints,
  type Answer,
  type PartnerRequest,
  type WebhookReceiver,
  newKey,
  openWebhookReceiver,
  sendTo,
} from './test/partner.ts';
import {
  type Listener,
  type Outlet,
  allMetrics,
  endpoint,
  listen,
  outlets,
  outletsOf,
  pageToAuthenticateOn,
  ownSecrets,
  planted,
  poison,
  refused,
  requestsWithCardData,
  submitted,
  traceId,
  traceparent,
  writePoison,
} from './test/secrets.ts';

const partnerId = planted('partner').replaceAll('_', '-');
let receiver: WebhookReceiver;
let listener: Listener;
let apiKey: string;

const on = onTheSystem(async (setup) => {
  listener = await listen(setup);
  receiver = await openWebhookReceiver(thisMachineFor(home));
  const headers = { 'set-cookie': endpoint.answerHeader };
  receiver.answer = { status: 500, headers, body: endpoint.answerBody };
  const added = await command('partners', 'add', partnerId, '--json');
  assert.equal(added.code, 0, added.stderr);
  ({ apiKey } = JSON.parse(added.stdout) as { apiKey: string });
  setup.atEnd(() => deleteEndpoints(setup.system.gateway, apiKey));
});
// Whatever became of the test: the provider is well again for those that follow.
afterEach(() =>
  stripeControl(on.system.providers.stripe.url, on.system.controlToken)('DELETE', '/faults'),
);
after(() => Promise.all([receiver?.close(), listener?.close()]));

/** Where what was sent to the system may be found. Nowhere else, and it is found there. */
const inRecordsAndEvents: Outlet[] = ['accepted record', 'event'];
const mayStand: Record<string, Outlet[]> = {
  // Operators follow a payment by the key that its partner names.
  [submitted.key]: ['accepted record', 'trace'],
  [submitted.description]: inRecordsAndEvents,
  [submitted.reference]: inRecordsAndEvents,
  [submitted.metadataName]: inRecordsAndEvents,
  [submitted.metadataValue]: inRecordsAndEvents,
  [submitted.reason]: inRecordsAndEvents,
  // A token of the provider's, worth nothing without the secret key.
  [submitted.paymentMethod]: inRecordsAndEvents,
  // Whoever sent a field that is not known is told its name.
  [refused.fieldName]: ['error answer'],
  // A dead letter has all that the record had; people find it by its key.
  [poison.key]: ['accepted record', 'dead letter', 'dead-letters list'],
  [poison.value]: ['accepted record', 'dead letter'],
  [poison.forgedKey]: ['accepted record', 'dead letter'],
  [poison.header]: ['accepted record', 'dead letter'],
  [poison.event]: ['event'],
};

/** What has to be found there, or looking there proves nothing. */
const mustStand: Record<string, Outlet[]> = {
  [traceId]: ['log', 'accepted record', 'event', 'trace'],
  [partnerId]: ['log', 'accepted record', 'event', 'audit'],
  triplock_gateway_payments_total: ['metrics'],
  'webhook not delivered': ['log'],
  'record dead-lettered': ['log'],
  'message refused and kept': ['log'],
  'the outcome at the provider is unknown': ['log'],
  [poison.key]: ['dead letter', 'dead-letters list'],
  [refused.fieldName]: ['error answer'],
};

const answers: Answer[] = [];
let sent = 0;

async function ask(request: PartnerRequest, expected: number): Promise<Record<string, unknown>> {
  const { gateways } = on.system;
  const answer = await sendTo(gateways[sent++ % gateways.length]!, {
    ...request,
    headers: { authorization: `Bearer ${apiKey}`, traceparent, ...request.headers },
  });
  assert.equal(answer.status, expected, answer.body);
  if (answer.status >= 400) answers.push(answer);
  return JSON.parse(answer.body) as Record<string, unknown>;
}

const pay = (fields: object, key = newKey('secret'), expected = 202) =>
  ask(
    {
      method: 'POST',
      path: '/v1/payments',
      key,
      body: { amount: 700, currency: 'EUR', ...fields },
    },
    expected,
  );

const allFields = {
  reference: submitted.reference,
  description: submitted.description,
  metadata: { [submitted.metadataName]: submitted.metadataValue },
};

/** Answers that are lost, no answers, or none that say anything: the worker has to tell of one. */
const faults = [
  { fault: 'rate-limit', operation: 'payment_intents.create', retryAfterSeconds: 1 },
  { fault: 'error-after', operation: 'payment_intents.create' },
  { fault: 'half-body', operation: 'payment_intents.create' },
  { fault: 'reset-after', operation: 'payment_intents.create' },
];

/**
 * Payments that succeed, fail, wait and are answered wrongly; returns their ids by what they do.
 */
async function payments() {
  const control = stripeControl(on.system.providers.stripe.url, on.system.controlToken);
  const transfer = String((await pay(allFields, submitted.key))['id']);
  await pay(allFields, submitted.key);
  await pay({ ...allFields, description: refused.otherBody }, submitted.key, 422);
  const declined = await pay({ payment_method: 'pm_card_chargeDeclined' });
  const unknown = await pay({ payment_method: submitted.paymentMethod });
  const return_url = 'https://shop.example/done';
  const waiting = await pay({ payment_method: 'pm_card_authenticationRequired', return_url });
  const intent = await eventually(async () => {
    const asked = await intentOf(String(waiting['id']));
    return asked?.status === 'requires_action' && asked;
  });
  for (const fault of faults) await control('POST', '/faults', { ...fault, count: 1 });
  const troubled = [];
  for (let n = 0; n < 3; n += 1) troubled.push(await pay({ payment_method: 'pm_card_visa' }));
  const refund = await ask(
    {
      method: 'POST',
      path: `/v1/payments/${transfer}/refunds`,
      key: newKey('secret'),
      body: { amount: 1, reason: submitted.reason },
    },
    202,
  );
  const final = [declined, unknown, ...troubled, refund].map(({ id }) => String(id));
  return { transfer, waiting: String(waiting['id']), intent, final: [transfer, ...final] };
}

type Intent = { id: string; status: string; client_secret: string };

/** As the provider has it. Whoever has its secret may act as the customer. */
async function intentOf(txnId: string): Promise<Intent | undefined> {
  const [row] = await on.look.ledger.query<{ id: string | null }>(
    'SELECT provider_intent_id AS id FROM ledger.transactions WHERE txn_id = $1',
    [txnId],
  );
  if (!row?.id) return undefined;
  const headers = { authorization: 'Bearer sk_test_triplock' };
  const answer = await fetch(`${on.system.providers.stripe.url}/v1/payment_intents/${row.id}`, {
    headers,
  });
  return (await answer.json()) as Intent;
}

/** Requests that are refused, each with something in it that is nobody's business. */
async function refusedRequests(): Promise<void> {
  const basic = Buffer.from(`admin:${refused.password}`).toString('base64');
  const list = { path: '/v1/payments' };
  await ask({ ...list, headers: { authorization: `Bearer ${refused.apiKey}` } }, 401);
  await ask({ ...list, headers: { authorization: `Basic ${basic}` } }, 401);
  await ask({ ...list, headers: { authorization: '', cookie: refused.cookie } }, 401);
  await ask({ path: `/v1/payments?limit=${refused.queryKey}` }, 400);
  await ask({ path: `/v1/${refused.queryKey}` }, 404);
  for (const request of requestsWithCardData()) await ask({ method: 'POST', ...request }, 400);
  await pay({ [refused.fieldName]: refused.fieldValue }, undefined, 400);
  const url = `https://user:${refused.urlPassword}@partner.example/`;
  await ask({ method: 'PUT', path: '/v1/webhook-endpoint', body: { url } }, 400);
  for (const webhooks of on.system.providers.stripe.webhooks) {
    const headers = { 'stripe-signature': `t=1,v1=${refused.stripeSignature}` };
    const answer = await fetch(webhooks, { method: 'POST', headers, body: refused.stripeBody });
    assert.equal(answer.status, 400);
    const got = { headers: Object.fromEntries(answer.headers), body: await answer.text() };
    answers.push({ ...got, status: 400, tookMs: 0 });
  }
}

/** What waited for the customer, and for the partner's server, ends well. */
async function endWell(waiting: string, intent: Intent): Promise<void> {
  const authenticate = `/payment_intents/${intent.id}/authenticate`;
  await stripeControl(on.system.providers.stripe.url, on.system.controlToken)(
    'POST',
    authenticate,
    {
      outcome: 'succeeded',
    },
  );
  receiver.answer = { status: 204 };
  await eventually(async () => listener.events().includes(waiting));
  const path = '/v1/webhook-deliveries';
  const pending = async () =>
    ((await ask({ path: `${path}?status=pending` }, 200)) as Listed).data.map(({ id }) => id);
  for (const id of await pending()) {
    await ask({ method: 'POST', path: `${path}/${id}/redeliver` }, 202);
  }
  await eventually(async () => (await pending()).length === 0);
}

type Struck = { faults: { hits: number }[] };
type Listed = { data: { id: string }[] };

/** Everything that went out by now. */
async function wentOut(txnId: string): Promise<Map<Outlet, Buffer>> {
  // Whether all is well is other promises' matter: what stands here is found in it, or it said
  // nothing.
  const printed = async (name: string, ...args: string[]) => {
    const { stdout, stderr } = await command(name, ...args);
    return Buffer.from(stdout + stderr);
  };
  const errors = answers.map(({ headers, body }) => JSON.stringify(headers) + body);
  return new Map<Outlet, Buffer>([
    ['log', Buffer.from(await readLogs({ home }))],
    ['accepted record', listener.records(topics.accepted)],
    ['dead letter', listener.records(topics.deadLetter)],
    // As it is published, and as it was archived before.
    ['event', Buffer.concat([listener.events(), listener.records(topics.told)])],
    ['metrics', await allMetrics(on)],
    ['error answer', Buffer.from(errors.join('\n'))],
    ['audit', await printed('audit', '--json', '--wait', '0')],
    ['trace', await printed('trace', txnId)],
    ['dead-letters list', await printed('dead-letters', 'list', '--json')],
  ]);
}

test('secrets, card data and what partners send stay where they belong, whatever goes wrong', async () => {
  const hooks = `${receiver.url}?token=${endpoint.token}`;
  const endpointPath = '/v1/webhook-endpoint';
  const made = await ask({ method: 'PUT', path: endpointPath, body: { url: hooks } }, 201);
  const rotated = await ask(
    { method: 'POST', path: `${endpointPath}/secrets`, key: newKey() },
    201,
  );
  const { transfer, waiting, intent, final } = await payments();
  await refusedRequests();
  await writePoison(on.system);

  await eventually(
    async () => {
      const [events, dead] = [listener.events(), listener.records(topics.deadLetter)];
      const reported = final.every((id) => events.includes(id)) && events.includes(poison.event);
      return reported && dead.includes(poison.value) && dead.includes(poison.forgedKey);
    },
    { withinMs: 60_000, what: 'an event of each transaction, and both dead letters' },
  );
  await eventually(async () => receiver.received.length >= final.length);
  const secrets: Record<string, string> = {
    ...ownSecrets(on.system),
    'API key': apiKey,
    'client secret': intent.client_secret,
    'page to authenticate on': await pageToAuthenticateOn((path) => ask({ path }, 200), {
      txnId: waiting,
      intent,
    }),
    'webhook secret': String(made['secret']),
    'new one': String(rotated['secret']),
    ...refused,
    ...endpoint,
  };
  await endWell(waiting, intent);
  const struck = await stripeControl(
    on.system.providers.stripe.url,
    on.system.controlToken,
  )<Struck>('GET', '/faults');
  assert.deepEqual(
    struck.faults.map(({ hits }) => hits),
    faults.map(() => 1),
  );
  const everything = await wentOut(transfer);
  const seen = (text: string) => outletsOf(text, everything);

  const wrong: string[] = [];
  for (const [text, wanted] of Object.entries({ ...mustStand, [transfer]: ['log', 'trace'] })) {
    const missing = wanted.filter((outlet) => !seen(text).includes(outlet));
    if (missing.length > 0) wrong.push(`${text} is not in ${missing.join(', ')}`);
  }
  const everywhere = Object.values(mustStand).flat();
  assert.deepEqual(
    outlets.filter((outlet) => ![...everywhere, 'trace'].includes(outlet)),
    [],
  );
  const byDesign = Object.keys(mayStand).map((text) => [text, text]);
  for (const [what, text] of [...Object.entries(secrets), ...byDesign] as [string, string][]) {
    assert.ok(text.length >= 16, `${what} is long enough to be looked for`);
    const [is, may] = [seen(text), mayStand[text] ?? []].map((list) => list.join(', '));
    if (is !== may) wrong.push(`${what} is in ${is || 'no outlet'}, not in ${may || 'no outlet'}`);
  }
  assert.deepEqual(wrong, []);
});
