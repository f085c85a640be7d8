import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { thisMachineFor } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { command, home, onTheSystem } from './test/system.ts';
import {
  type Answer,
  type PartnerRequest,
  type WebhookReceiver,
  deleteEndpoints,
  isSignedBy,
  newKey,
  openWebhookReceiver,
  sendTo,
} from './test/partner.ts';

const endpointPath = '/v1/webhook-endpoint';
const name = `hooked-${randomBytes(6).toString('hex')}`;

let apiKey: string;
let receiver: WebhookReceiver;

const setup = onTheSystem(async () => {
  receiver = await openWebhookReceiver(thisMachineFor(home));
  const added = await command('partners', 'add', name, '--json');
  assert.equal(added.code, 0, added.stderr);
  ({ apiKey } = JSON.parse(added.stdout) as { apiKey: string });
  setup.atEnd(() => deleteEndpoints(setup.system.gateway, apiKey));
});
after(() => receiver?.close());

let sent = 0;

/** Asks as the new partner, one gateway after the other. */
async function ask(request: PartnerRequest): Promise<{ status: number; body: Asked }> {
  const { gateways } = setup.system;
  const gateway = gateways[sent++ % gateways.length]!;
  const headers = { authorization: `Bearer ${apiKey}` };
  const answer: Answer = await sendTo(gateway, { ...request, headers });
  return { status: answer.status, body: JSON.parse(answer.body || '{}') as Asked };
}

type Asked = Record<string, unknown>;

const setUrl = (url: string) => ask({ method: 'PUT', path: endpointPath, body: { url } });

const payment = { method: 'POST', path: '/v1/payments', body: { amount: 3, currency: 'EUR' } };

/** Pays and gives the webhook that came of it. */
async function webhookOfAPayment() {
  const before = receiver.received.length;
  const paid = await ask({ ...payment, key: newKey() });
  assert.equal(paid.status, 202);
  const txnId = String(paid.body['id']);
  const webhook = await eventually(async () =>
    receiver.received.slice(before).find(({ body }) => body.includes(txnId)),
  );
  return { webhook, txnId };
}

test('a partner sets its endpoint and rotates its secret: both sign until the old one ends', async () => {
  assert.equal((await ask({ path: endpointPath })).status, 404);
  const made = await setUrl(receiver.url);
  assert.equal(made.status, 201);
  const old = String(made.body['secret']);
  assert.ok(isSignedBy(old, (await webhookOfAPayment()).webhook));

  const rotation = { method: 'POST', path: `${endpointPath}/secrets`, key: newKey('rotation') };
  const rotated = await ask(rotation);
  assert.equal(rotated.status, 201);
  const next = String(rotated.body['secret']);
  assert.deepEqual(await ask(rotation), rotated);
  const { webhook: during } = await webhookOfAPayment();
  assert.deepEqual([isSignedBy(next, during), isSignedBy(old, during)], [true, true]);
  assert.equal(isSignedBy(old, { ...during, body: `${during.body} ` }), false);

  // The day of both is over.
  await setup.look.database.query(
    `UPDATE partners.webhook_endpoints SET second_secret_until = now() - interval '1 second'
     WHERE partner_id = $1`,
    [name],
  );
  const { webhook: after } = await webhookOfAPayment();
  assert.deepEqual([isSignedBy(next, after), isSignedBy(old, after)], [true, false]);
});

test('a webhook that is asked for again comes again, the same under the same id', async () => {
  await setUrl(receiver.url);
  const { webhook, txnId } = await webhookOfAPayment();
  const delivered = async (attempts: number) => {
    const { body } = await ask({ path: '/v1/webhook-deliveries?status=delivered&limit=100' });
    const found = (body['data'] as Asked[]).find((each) => each['txn_id'] === txnId);
    return found?.['attempts'] === attempts && found;
  };
  const first = await eventually(() => delivered(1));
  assert.equal(first['id'], webhook.id);

  const again = `/v1/webhook-deliveries/${webhook.id}/redeliver`;
  const other = await setup.acme.send({ method: 'POST', path: again });
  assert.equal(other.status, 404, other.body);
  const asked = await ask({ method: 'POST', path: again });
  assert.deepEqual([asked.status, asked.body['status']], [202, 'pending']);
  await eventually(() => delivered(2));
  const copies = receiver.received.filter(({ id }) => id === webhook.id);
  assert.equal(copies.length, 2);
  assert.equal(copies[1]!.body, webhook.body);
});

const typesAt = ({ received }: WebhookReceiver) =>
  received.map(({ body }) => (JSON.parse(body) as { type: string }).type);

test('each of two endpoints gets once what it wants, one alone its test, and what is deleted nothing more', async (t) => {
  await setUrl(receiver.url);
  const refunds = await openWebhookReceiver(thisMachineFor(home));
  t.after(() => refunds.close());
  const body = { url: refunds.url, enabled_events: ['refund.succeeded'] };
  const making = { method: 'POST', path: `${endpointPath}s`, key: newKey(), body };
  const made = await ask(making);
  assert.equal(made.status, 201);
  assert.deepEqual(await ask(making), made);
  const path = `${endpointPath}s/${String(made.body['id'])}`;
  await eventually(async () => (await ask({ path })).body['status'] === 'verified');
  const tested = await ask({ method: 'POST', path: `${path}/test` });
  assert.deepEqual([tested.status, tested.body['outcome']], [200, 'delivered']);

  const refunded = async () => {
    const { txnId } = await webhookOfAPayment();
    const told = receiver.received.length;
    await ask({
      method: 'POST',
      path: `${payment.path}/${txnId}/refunds`,
      key: newKey(),
      body: {},
    });
    return eventually(async () => receiver.received[told]);
  };
  const { id } = await refunded();
  await eventually(async () => refunds.received.length === 2);
  assert.deepEqual(typesAt(refunds), ['endpoint.test', 'refund.succeeded']);
  assert.ok(isSignedBy(String(made.body['secret']), refunds.received[1]!));
  assert.equal((await ask({ method: 'DELETE', path })).status, 204);
  assert.notEqual((await refunded()).id, id);
  const audited = await command('audit', '--wait', '60');
  assert.equal(audited.code, 0, audited.stdout);
  assert.equal(receiver.received.filter((each) => each.id === id).length, 1);
  assert.equal(refunds.received.at(-1)!.id, id);
});

test('a URL that is set gets a question and no webhook until it echoes the token; then all that waits', async (t) => {
  const victim = await openWebhookReceiver(thisMachineFor(home));
  victim.wantsWebhooks = false;
  t.after(() => victim.close());
  await setUrl(victim.url);
  const paid = await ask({ ...payment, key: newKey() });
  const txnId = String(paid.body['id']);
  const isParked = async () => {
    const { body } = await ask({ path: '/v1/webhook-deliveries?status=parked&limit=100' });
    return (body['data'] as Asked[]).some((each) => each['txn_id'] === txnId);
  };
  await eventually(async () => victim.received.length > 0 && (await isParked()));
  assert.deepEqual(new Set(typesAt(victim)), new Set(['endpoint.verification']));

  const asked = victim.received.length;
  victim.wantsWebhooks = true;
  // It is asked again when it is set, and else after half a minute.
  await setUrl(victim.url);
  await eventually(async () => victim.received.some(({ body }) => body.includes(txnId)));
  assert.ok(!typesAt(victim).slice(asked).includes('endpoint.verification'));
  await setUrl(receiver.url);
});

test('an endpoint inside a private network is refused, and the one before it stays', async () => {
  await setUrl(receiver.url);
  for (const url of [
    'http://10.0.0.1/hooks',
    'https://192.168.1.1/hooks',
    'https://169.254.169.254/latest/meta-data/',
    'https://[fd00::1]/',
    'https://[::ffff:10.0.0.1]/',
    'https://0xa000001/',
    'ftp://partner.example/',
    'https://user:password@partner.example/',
  ]) {
    const refused = await setUrl(url);
    assert.deepEqual([refused.status, refused.body['code']], [400, 'invalid_request'], url);
  }
  assert.equal((await ask({ path: endpointPath })).body['url'], receiver.url);
});
