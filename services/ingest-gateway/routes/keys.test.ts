import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deriveTxnId, type PartnerId } from '@triplock/payments';
import { aPayment, eventually } from '@triplock/testing';
import { acceptTransaction } from '../accept/accept-transaction.ts';
import { findKey } from '../accept/find-key.ts';
import { claimOf, encodeAccepted } from '../accept/transaction.ts';
import { anOrder, openTestGateway } from '../test/gateway.ts';
import { transactionEdge, type Answered } from '../test/route-edges.ts';

const body = { amount: 1_200, currency: 'EUR' };
const leaseMs = 30_000;

const pathOf = (key: string, kind = 'payment') => `/v1/keys/${kind}/${encodeURIComponent(key)}`;

/** What was said of a key, without the time as of which it holds. */
function said({ status, body: { as_of: _, ...rest } }: Answered) {
  return { status, body: rest };
}

const keyOf = (key: string, rest: object) => {
  return { status: 200, body: { object: 'key', kind: 'payment', key, ...rest } };
};

/** The answer once the stores are in time, as a partner gets it who asks again after a 503. */
function sure(ask: () => Promise<Answered>): Promise<Answered> {
  return eventually(async () => {
    const answer = await ask();
    return answer.status !== 503 && answer;
  });
}

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

describe('what became of a key', () => {
  it('never accepted, of all that came half a minute ago and earlier', async (t) => {
    const { get } = await transactionEdge(t);
    const before = Date.now();
    const answer = await sure(() => get(pathOf('order-1')));
    assert.deepEqual(said(answer), keyOf('order-1', { status: 'never_accepted' }));
    const asOf = Date.parse(String(answer.body['as_of']));
    assert.ok(asOf >= before - leaseMs && asOf <= Date.now() - leaseMs);
    assert.equal(answer.headers['cache-control'], 'no-store');
  });

  it('accepted with its 202, posted or not, and by its own partner alone', async (t) => {
    const { get, post, catchUp, forgetClaims } = await transactionEdge(t);
    const key = `it's "A/4", 100 %`;
    const quoted = `"${key.replaceAll('"', '\\"')}"`;
    const { body: paid, headers } = await sure(() => post('/v1/payments', { key: quoted, body }));
    const accepted = keyOf(key, { status: 'accepted', id: paid['id'] });
    const first = await sure(() => get(pathOf(key)));
    assert.deepEqual(said(first), accepted);
    assert.equal(first.headers['location'], headers['location']);
    await catchUp();
    assert.deepEqual(said(await sure(() => get(pathOf(key)))), accepted);
    await forgetClaims();
    assert.deepEqual(said(await sure(() => get(pathOf(key)))), accepted);
    const others = await sure(() => get(pathOf(key), { as: 'globex' }));
    assert.deepEqual(said(others), keyOf(key, { status: 'never_accepted' }));
    const asRefund = await sure(() => get(pathOf(key, 'refund')));
    assert.equal(asRefund.body['status'], 'never_accepted');
  });

  it('accepted of a refund, whose payment is not said', async (t) => {
    const { get, post } = await transactionEdge(t);
    const { body: paid } = await sure(() => post('/v1/payments', { key: 'order-2', body }));
    const refunds = `/v1/payments/${String(paid['id'])}/refunds`;
    const { body: given } = await sure(() =>
      post(refunds, { key: 'back-2', body: { amount: 100 } }),
    );
    const { body: found } = await sure(() => get(pathOf('back-2', 'refund')));
    assert.deepEqual([found['status'], found['id']], ['accepted', given['id']]);
  });

  it('in flight while somebody may still append it, also after a release', async (t) => {
    const { get, gateway } = await transactionEdge(t);
    const payment = aPayment();
    const claim = await gateway.claims.claim(await asClaimed(gateway, payment));
    assert.ok(claim.outcome === 'claimed');
    const released = () => gateway.claims.release({ txnId: payment.txnId, token: claim.token });
    for (const then of [async () => 'released', released]) {
      const answer = await sure(() => get(pathOf(payment.key)));
      assert.deepEqual(said(answer), keyOf(payment.key, { status: 'in_flight' }));
      const wait = Number(answer.headers['retry-after']);
      assert.ok(wait > 0 && wait <= leaseMs / 1_000, `${wait} s`);
      assert.equal(await then(), 'released');
    }
  });

  it('never accepted where a gateway died with the claim and nothing was appended', async (t) => {
    const { get, gateway } = await transactionEdge(t, { leaseMs: 1 });
    const payment = aPayment();
    await gateway.claims.claim(await asClaimed(gateway, payment));
    // The millisecond of its lease is over by the store's clock, which may be set back meanwhile.
    const found = await eventually(async () => {
      const { body: told } = await sure(() => get(pathOf(payment.key)));
      return told['status'] !== 'in_flight' && told;
    });
    assert.equal(found['status'], 'never_accepted');
  });

  it('unknown where one died after it appended, until that is posted: then accepted', async (t) => {
    const { get, gateway, catchUp } = await transactionEdge(t, { leaseMs: 1 });
    const payment = aPayment();
    await gateway.claims.claim(await asClaimed(gateway, payment));
    await gateway.log.append(encodeAccepted(payment, traceparent));
    const unknown = await get(pathOf(payment.key));
    assert.deepEqual([unknown.status, unknown.body['code']], [503, 'unavailable']);
    assert.ok(Number(unknown.headers['retry-after']) >= 1);
    await catchUp();
    assert.deepEqual(
      said(await sure(() => get(pathOf(payment.key)))),
      keyOf(payment.key, { status: 'accepted', id: payment.txnId }),
    );
  });

  it('unknown where its claim was lost and the ledger is behind, and never "never accepted"', async (t) => {
    const { get, post, catchUp, forgetClaims } = await transactionEdge(t);
    await sure(() => post('/v1/payments', { key: 'order-3', body }));
    await forgetClaims();
    assert.equal((await get(pathOf('order-3'))).status, 503);
    await catchUp();
    assert.equal((await sure(() => get(pathOf('order-3')))).body['status'], 'accepted');
    assert.equal((await sure(() => get(pathOf('order-4')))).body['status'], 'never_accepted');
  });

  it('unknown on a server of the ledger that may lack what was posted on another', async (t) => {
    const { get, post, catchUp, database } = await transactionEdge(t);
    await sure(() => post('/v1/payments', { key: 'order-5', body }));
    await catchUp();
    await database.open().query(`UPDATE ledger.continuity SET posted_on = 'another'`);
    assert.equal((await sure(() => get(pathOf('order-5')))).body['status'], 'accepted');
    assert.equal((await get(pathOf('order-6'))).status, 503);
  });

  it('accepted where that happens between its looks', async (t) => {
    const { gateway } = await openTestGateway(t);
    const payment = aPayment();
    const untilPosted = async () => {
      const { outcome } = await acceptTransaction(gateway, anOrder(payment));
      return outcome === 'accepted';
    };
    const meanwhile = { ...gateway, recovery: { ...gateway.recovery, untilPosted } };
    const { kind, txnId, partnerId } = payment;
    const asked = { kind, txnId, partnerId };
    const found = await findKey(meanwhile, asked, AbortSignal.timeout(10_000));
    assert.deepEqual(found, { outcome: 'accepted' });
  });

  it('unknown where another server of the ledger answers between its looks', async (t) => {
    const { gateway } = await openTestGateway(t);
    const servers = ['one', 'another'];
    const recovery = { ...gateway.recovery, untilPosted: async () => true };
    const moved = { ...gateway, recovery, wholeLedger: async () => servers.shift() };
    const { kind, txnId, partnerId } = aPayment();
    const found = await findKey(moved, { kind, txnId, partnerId }, AbortSignal.timeout(10_000));
    assert.deepEqual(found, { outcome: 'cold' });
    assert.deepEqual(servers, []);
  });

  it('asked for wrongly: what to ask instead', async (t) => {
    const { get } = await transactionEdge(t);
    const longest = 'k'.repeat(255);
    assert.equal((await sure(() => get(pathOf(longest)))).body['key'], longest);
    for (const [path, code] of [
      [pathOf('order', 'invoice'), 'invalid_request'],
      ['/v1/keys/payment/%ZZ', 'invalid_request'],
      [pathOf(`${longest}k`), 'idempotency_key_invalid'],
      [pathOf('line\nbreak'), 'idempotency_key_invalid'],
      [pathOf('Grüße'), 'idempotency_key_invalid'],
      ['/v1/keys/payment/', 'idempotency_key_invalid'],
    ] as const) {
      const { status, body: problem } = await sure(() => get(path));
      assert.deepEqual([status, problem['code']], [400, code], path);
    }
  });
});

/** The request for a payment that a gateway claims, in a bucket that is warm. */
async function asClaimed(
  { claims, recovery }: Awaited<ReturnType<typeof openTestGateway>>['gateway'],
  payment: ReturnType<typeof aPayment>,
) {
  await recovery.prepare();
  const { txnId, key } = payment;
  assert.equal(txnId, deriveTxnId('payment', 'acme' as PartnerId, key));
  const read = await claims.read(txnId);
  const epoch = read.outcome === 'cold' ? read.epoch : undefined;
  return { ...claimOf(payment), ...(epoch !== undefined && { ledgerCheckedIn: epoch }) };
}
