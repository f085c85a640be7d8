import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import {
  deriveEventId,
  deriveTxnId,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';
import { eventually, stripeControl } from '@triplock/testing';
import { recordRun } from './test/history.ts';
import { type Answer, insist, newKey } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

const on = onTheSystem();
afterEach(() => providerTakes(0));

type Shown = {
  id: string;
  status: string;
  amount: number;
  currency: string;
  amount_refunded: number;
  failure?: { code: string };
};

test('a payment goes back in part and then whole, each refund reported once and in order', async () => {
  const payment = await pay({ amount: 1_000 });
  const key = newKey('refund');
  const asked = { amount: 300, reason: 'one of two was broken' };
  const accepted = await on.acme.refund(payment, key, asked);
  assert.equal(accepted.status, 202, accepted.body);
  const part = deriveTxnId('refund', 'acme' as PartnerId, key as IdempotencyKey);
  const pending = { id: part, object: 'refund', payment, status: 'pending', ...asked };
  assert.deepEqual(JSON.parse(accepted.body), pending);
  const retry = await on.acme.refund(payment, `"${key}"`, asked);
  assert.deepEqual([retry.status, retry.body], [202, accepted.body]);
  assert.equal(retry.headers['idempotency-replayed'], 'true');
  assert.equal((await on.acme.refund(payment, key, {})).status, 422);
  assert.equal((await on.globex.refund(payment, key, asked)).status, 404);
  assert.equal((await final(accepted)).status, 'succeeded');

  const rest = await final(await on.acme.refund(payment, newKey('refund'), {}));
  assert.deepEqual([rest.status, rest.amount, rest.currency], ['succeeded', 700, 'EUR']);
  assert.equal((await on.globex.refunded(rest.id)).status, 404);
  assert.equal(await refundedOf(payment), 1_000);
  const failed = await refusedAtOnce(payment, {});

  const reported = [];
  for (const id of [payment, part, rest.id, ...failed]) {
    const caught = await eventually(async () => {
      const webhooks = await on.look.webhooks(id);
      return webhooks.length > 0 && webhooks;
    });
    assert.equal(caught.length, 1);
    const [{ id: event, verified, body }] = caught as [(typeof caught)[number]];
    assert.deepEqual([verified, event], [true, deriveEventId(id as never, body.type as never)]);
    reported.push([body.type, body.sequence]);
  }
  assert.deepEqual(reported, [
    ['payment.succeeded', 1],
    ['refund.succeeded', 2],
    ['refund.succeeded', 3],
    ...failed.map((_, nth) => ['refund.failed', 4 + nth]),
  ]);
  const once = { ledger: 1, entries: 1, outbox: 1, published: 1, inbox: 1, deliveries: 1 };
  await eventually(async () => {
    // In the inbox it is counted with its payment's events.
    assert.deepEqual({ ...(await on.look.counts(part)), inbox: 1 }, once);
    return true;
  });
});

test('of ten refunds of 60 % at once one succeeds, of a hundred of 1 % all do', async () => {
  const { acme, finish } = await recordRun(on, 'refunds-at-once');
  const [contested, crumbled] = [
    await pay({ amount: 1_000 }, acme),
    await pay({ amount: 1_000 }, acme),
  ];
  const ask = (count: number, payment: string, amount: number) =>
    Promise.all(Array.from({ length: count }, () => refund(payment, amount, acme)));
  const asked = await Promise.all([ask(10, contested, 600), ask(100, crumbled, 10)]);
  // Who comes once one has succeeded is refused at once.
  const late = asked[0].filter(isTooMuch);
  const accepted = asked[0].filter((each) => !isTooMuch(each));
  const [large, small] = [await allFinal(accepted), await allFinal(asked[1])];
  assert.equal(large.filter(({ status }) => status === 'succeeded').length, 1);
  const refusals = large.flatMap(({ failure }) => failure?.code ?? []);
  assert.deepEqual(refusals, Array(9 - late.length).fill('amount_exceeds_refundable'));
  assert.deepEqual(new Set(small.map(({ status }) => status)), new Set(['succeeded']));
  assert.deepEqual([await refundedOf(contested), await refundedOf(crumbled)], [600, 1_000]);
  assert.equal((await listOf(crumbled)).size, 100);
  await finish({ complete: true });
});

test('a card is refunded before it is charged: the refund waits and follows', async () => {
  await providerTakes(700);
  const paid = await on.acme.pay(newKey(), { amount: 500, currency: 'EUR', ...card('visa') });
  const { id } = JSON.parse(paid.body) as Shown;
  const accepted = await on.acme.refund(id, newKey('refund'), { amount: 200 });
  assert.equal(accepted.status, 202);
  const { id: refund } = JSON.parse(accepted.body) as Shown;
  assert.equal((JSON.parse((await on.acme.payment(id)).body) as Shown).status, 'pending');
  assert.equal((JSON.parse((await on.acme.refunded(refund)).body) as Shown).status, 'pending');
  const { status, amount } = await final(accepted);
  assert.deepEqual([status, amount], ['succeeded', 200]);
  assert.equal(await refundedOf(id), 200);
  const given = await control<{ refunds: Record<string, Sum> }>('GET', '/audit');
  const [booked] = await on.look.ledger.query<Sum>(givenBackSql);
  assert.deepEqual(given.refunds['eur'], booked);
});

test('a payment that failed has nothing to give back', async () => {
  const declined = await on.acme.pay(newKey(), {
    amount: 500,
    currency: 'EUR',
    ...card('chargeDeclined'),
  });
  const { id } = JSON.parse(declined.body) as Shown;
  const early = await final(await on.acme.refund(id, newKey('refund'), {}));
  assert.deepEqual([early.status, early.failure?.code], ['failed', 'payment_not_refundable']);
  assert.equal((JSON.parse((await on.acme.payment(id)).body) as Shown).status, 'failed');
  await refusedAtOnce(id, { amount: 1 }, 'payment_not_refundable');
});

async function refund(payment: string, amount: number, client = on.acme): Promise<Answer> {
  const key = newKey('refund');
  return insist(() => client.refund(payment, key, { amount }));
}

/**
 * Asks under new keys until one is refused, and gives those that were accepted before, because it
 * was not known soon enough: each failed.
 */
async function refusedAtOnce(
  payment: string,
  body: object,
  code = 'amount_exceeds_refundable',
): Promise<string[]> {
  const failed: string[] = [];
  return eventually(async () => {
    const answer = await on.acme.refund(payment, newKey('refund'), body);
    if (answer.status === 202) {
      const { id, failure } = await final(answer);
      assert.equal(failure?.code, code);
      failed.push(id);
      return undefined;
    }
    assert.ok(isTooMuch(answer), answer.body);
    return failed;
  });
}

/** Whether it was refused because no so much is left. */
function isTooMuch({ status, body }: Answer): boolean {
  if (status !== 400) return false;
  const { errors } = JSON.parse(body) as { errors?: { pointer: string }[] };
  return errors?.length === 1 && errors[0]!.pointer === '#/amount';
}

type Sum = { count: number; amount: number };

const givenBackSql = `
  SELECT count(*)::int AS count, sum(amount)::int AS amount FROM ledger.entries
  WHERE credit_account = 'provider.stripe:clearing' AND currency = 'EUR'`;

const card = (name: string) => ({ payment_method: `pm_card_${name}` });

/** A book transfer that has succeeded. */
async function pay({ amount }: { amount: number }, client = on.acme): Promise<string> {
  const accepted = await client.pay(newKey(), { amount, currency: 'EUR' });
  const { id } = JSON.parse(accepted.body) as Shown;
  const paid = JSON.parse((await on.acme.payment(id, 30)).body) as Shown;
  assert.equal(paid.status, 'succeeded');
  return id;
}

/** The refund once it is final. */
async function final(accepted: Answer): Promise<Shown> {
  assert.equal(accepted.status, 202, accepted.body);
  const { id } = JSON.parse(accepted.body) as Shown;
  return eventually(
    async () => {
      const refund = JSON.parse((await on.acme.refunded(id, 30)).body) as Shown;
      return refund.status !== 'pending' && refund;
    },
    // A hundred of one payment are posted one after the other, which takes the Spanner emulator its
    // time.
    { withinMs: 90_000, what: `refund ${id} to be final` },
  );
}

/** One after the other: a hundred who wait would have the ledger do nothing but answer them. */
async function allFinal(accepted: readonly Answer[]): Promise<Shown[]> {
  const refunds: Shown[] = [];
  for (const each of accepted) refunds.push(await final(each));
  return refunds;
}

async function refundedOf(payment: string): Promise<number> {
  return (JSON.parse((await on.acme.payment(payment)).body) as Shown).amount_refunded;
}

/** The ids of all refunds of a payment, page by page. */
async function listOf(payment: string): Promise<Set<string>> {
  const ids = new Set<string>();
  for (let next = '', hasMore = true; hasMore;) {
    const { body } = await on.acme.send({
      path: `/v1/payments/${payment}/refunds?limit=40${next}`,
    });
    const page = JSON.parse(body) as { data: Shown[]; has_more: boolean };
    for (const { id } of page.data) ids.add(id);
    hasMore = page.has_more;
    next = `&starting_after=${page.data.at(-1)!.id}`;
  }
  return ids;
}

/** How long the provider thinks about each call. */
function providerTakes(ms: number): Promise<unknown> {
  return control('PUT', '/settings', { latency: { medianMs: ms, p99Ms: ms } });
}

function control<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  return stripeControl(on.system.providers.stripe.url, on.system.controlToken)<Answer>(
    method,
    path,
    body,
  );
}
