import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { encodePaymentAccepted, renderAccepted } from '@triplock/contracts';
import type { AcceptedPayment, TxnId } from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import type { Gateway } from '../gateway.ts';
import { anOrder, aRefundOrder, openTestGateway } from '../test/gateway.ts';
import { acceptTransaction } from './accept-transaction.ts';
import { readBackLosses } from './read-back.ts';

const away = () => Promise.reject(new Error('PostgreSQL is away'));
/** Whoever asks the ledger now fails. */
const withoutLedger = (gateway: Gateway): Gateway => ({
  ...gateway,
  ledger: { ...gateway.ledger, find: away, kindsOf: away },
  questions: { isPosted: away, isPostedSoon: away, soon: away },
});
const otherBody = ({ key }: AcceptedPayment) => aPayment({ key, amount: 9_999n });
const outcomeOf = async (gateway: Gateway, payment: AcceptedPayment) =>
  (await acceptTransaction(gateway, anOrder(payment))).outcome;

/** Until it is warm: of the first looks one notes the loss. */
async function readBackWhole({ readBack }: Pick<Gateway, 'readBack'>): Promise<void> {
  for (let n = 0; n < 5 && (n === 0 || readBack.state().state === 'cold'); n += 1) {
    await readBack.look();
  }
  assert.deepEqual(readBack.state(), { state: 'warm' });
  assert.equal(await readBack.isCold(), false);
}

/** A gateway that accepted and posted a payment, lost its claims and read them back. */
async function aGatewayReadBack(t: Parameters<typeof openTestGateway>[0]) {
  const system = await openTestGateway(t);
  const payment = aPayment();
  await acceptTransaction(system.gateway, anOrder(payment));
  await system.catchUp();
  await system.forgetClaims();
  assert.equal(await system.gateway.readBack.isCold(), true);
  await readBackWhole(system.gateway);
  return { ...system, payment };
}

describe('a gateway that reads lost claims back', () => {
  it('accepts new keys while the ledger is away, by one claim each, and knows the used ones', async (t) => {
    const { gateway, payment, appended } = await aGatewayReadBack(t);
    let claims = 0;
    const claim: typeof gateway.claims.claim = (request) => {
      claims += 1;
      return gateway.claims.claim(request);
    };
    const counted = { ...withoutLedger(gateway), claims: { ...gateway.claims, claim } };
    const fresh = Array.from({ length: 50 }, () => aPayment());
    for (const each of fresh) assert.equal(await outcomeOf(counted, each), 'accepted');
    assert.equal(claims, 50);
    // Claimed since the loss: the claim store knows.
    for (const each of fresh) {
      assert.equal(await outcomeOf(counted, each), 'replayed');
      assert.equal(await outcomeOf(counted, otherBody(each)), 'reused');
    }
    // Used before it: the ledger alone knows by whom.
    assert.equal(await outcomeOf(counted, otherBody(payment)), 'unavailable');
    assert.equal(await outcomeOf(gateway, otherBody(payment)), 'reused');
    const retry = await acceptTransaction(gateway, anOrder(payment));
    assert.deepEqual(retry, { outcome: 'replayed', answer: renderAccepted(payment) });
    assert.equal(await appended(), 51n);
  });

  it('knows refunds too, and what is pending', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    const payment = aPayment({ amount: 100n });
    await acceptTransaction(gateway, anOrder(payment));
    await catchUp();
    const refund = aRefund(payment, { amount: 1n });
    await acceptTransaction(gateway, aRefundOrder(refund));
    await catchUp();
    await forgetClaims();
    await readBackWhole(gateway);
    assert.equal(gateway.readBack.provenNew(refund.txnId), undefined);
    const other = aRefundOrder(aRefund(payment, { key: refund.key, amount: 2n }));
    assert.equal((await acceptTransaction(gateway, other)).outcome, 'reused');
  });

  it('proves nothing before all is posted that was accepted before the loss', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    await forgetClaims();
    for (let n = 0; n < 3; n += 1) await gateway.readBack.look();
    assert.deepEqual(gateway.readBack.state(), { state: 'cold', step: 'waiting' });
    assert.equal(gateway.readBack.provenNew(aPayment().txnId), undefined);
    await catchUp();
    await readBackWhole(gateway);
    assert.equal(await outcomeOf(gateway, otherBody(payment)), 'reused');
  });

  it('waits for what was claimed before the loss and is appended after it', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    await catchUp();
    const underWayMs = 1_000;
    const patient = readBackLosses({ ...gateway }, { underWayMs });
    const hasty = readBackLosses({ ...gateway }, { underWayMs: 0 });
    await forgetClaims();
    for (const readBack of [hasty, patient]) {
      for (let n = 0; n < 3; n += 1) await readBack.look();
    }
    const metAt = performance.now();
    // Its gateway died after it: nobody claims it again.
    const late = aPayment();
    await gateway.log.append(encodePaymentAccepted(late, ''));
    assert.ok(
      performance.now() - metAt < underWayMs,
      'the machine was too slow to tell them apart',
    );
    await catchUp();
    await t.waitFor(() => readBackWhole({ readBack: patient }), { timeout: 20_000 });
    assert.notEqual(hasty.provenNew(late.txnId), undefined, 'the wait is not what this is about');
    assert.equal(patient.provenNew(late.txnId), undefined);
    assert.equal(await outcomeOf({ ...gateway, readBack: patient }, otherBody(late)), 'reused');
  });

  it('knows what is claimed meanwhile, and is not posted', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    await catchUp();
    await forgetClaims();
    await gateway.recovery.prepare();
    const meanwhile: AcceptedPayment[] = [];
    const ledger = {
      async *postedWithin(ms: number) {
        for await (const portion of gateway.ledger.postedWithin(ms)) {
          if (portion.part === 1) {
            const payment = aPayment();
            assert.equal(await outcomeOf(gateway, payment), 'accepted');
            meanwhile.push(payment);
          }
          yield portion;
        }
      },
    };
    const readBack = readBackLosses({ ...gateway, ledger }, { underWayMs: 0 });
    await readBackWhole({ readBack });
    assert.equal(meanwhile.length, 1);
    for (const payment of meanwhile) {
      assert.notEqual(readBack.provenNew(payment.txnId), undefined);
      assert.equal(await outcomeOf({ ...gateway, readBack }, otherBody(payment)), 'reused');
      assert.equal(await outcomeOf({ ...gateway, readBack }, payment), 'replayed');
    }
  });

  it('proves nothing across a second loss, in the middle or after it', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    await catchUp();
    await forgetClaims();
    await gateway.recovery.prepare();
    const accepted = aPayment();
    const ledger = {
      async *postedWithin(ms: number) {
        let isFirst = true;
        for await (const portion of gateway.ledger.postedWithin(ms)) {
          if (isFirst) {
            // Behind what was read of it, and not posted when the last of it is read.
            assert.equal(await outcomeOf(gateway, accepted), 'accepted');
            await forgetClaims();
          }
          isFirst = false;
          yield portion;
        }
      },
    };
    const readBack = readBackLosses({ ...gateway, ledger }, { underWayMs: 0 });
    await readBack.look();
    const after = { ...gateway, readBack };
    assert.notEqual(readBack.provenNew(accepted.txnId), undefined);
    assert.equal(await readBack.isCold(), true);
    for (let n = 0; n < 3; n += 1) {
      assert.deepEqual(await acceptTransaction(after, anOrder(otherBody(accepted))), {
        outcome: 'cold',
      });
    }
    await catchUp();
    assert.equal(await outcomeOf(after, otherBody(accepted)), 'reused');
    assert.equal(await outcomeOf(after, accepted), 'replayed');
    assert.equal(await appended(), 2n);
  });

  it('goes on asking the ledger while it cannot be read back, and reads it whole when it is there', async (t) => {
    const { gateway, payment, forgetClaims } = await aGatewayReadBack(t);
    await forgetClaims();
    await gateway.recovery.prepare();
    let portions = 0;
    const breaking = {
      async *postedWithin(ms: number) {
        for await (const portion of gateway.ledger.postedWithin(ms)) {
          yield portion;
          portions += 1;
          if (portions === 3) await away();
        }
      },
    };
    const readBack = readBackLosses({ ...gateway, ledger: breaking }, { underWayMs: 0 });
    await assert.rejects(readBack.look(), /PostgreSQL is away/);
    assert.equal(await readBack.isCold(), true);
    assert.equal(readBack.provenNew(aPayment().txnId), undefined);
    assert.deepEqual(readBack.state(), { state: 'cold', step: 'waiting' });
    // Not posted: it is behind the barrier, and has a claim.
    assert.equal(await outcomeOf({ ...gateway, readBack }, aPayment()), 'accepted');
    await readBackWhole({ readBack });
    assert.equal(await outcomeOf({ ...gateway, readBack }, otherBody(payment)), 'reused');
  });

  it('takes the word of no ledger of which it is not known that it has everything', async (t) => {
    const { gateway, forgetClaims } = await aGatewayReadBack(t);
    await forgetClaims();
    await gateway.recovery.prepare();
    const servers: (string | undefined)[] = [undefined, 'one', 'another', 'one', 'one'];
    const wholeLedger = () => Promise.resolve(servers.shift());
    const readBack = readBackLosses({ ...gateway, wholeLedger }, { underWayMs: 0 });
    await readBack.look();
    assert.equal(readBack.state().state, 'cold');
    await readBack.look();
    assert.equal(readBack.state().state, 'cold');
    await readBackWhole({ readBack });
    assert.deepEqual(servers, []);
  });

  it('reads by itself, whatever another gateway is at, and one key is accepted once', async (t) => {
    const { gateway, payment, forgetClaims, appended } = await aGatewayReadBack(t);
    await forgetClaims();
    const another = { ...gateway, readBack: readBackLosses({ ...gateway }, { underWayMs: 0 }) };
    await Promise.all([readBackWhole(gateway), readBackWhole(another)]);
    const both = [withoutLedger(gateway), withoutLedger(another)];
    const fresh = Array.from({ length: 30 }, () => aPayment());
    for (const each of fresh) {
      const outcomes = await Promise.all([
        ...both.map((one) => outcomeOf(one, each)),
        ...both.map((one) => outcomeOf(one, otherBody(each))),
      ]);
      assert.equal(outcomes.filter((one) => one === 'accepted').length, 1, outcomes.join());
    }
    assert.equal(await outcomeOf(another, otherBody(payment)), 'reused');
    assert.equal(await appended(), 31n);
  });

  it('forgets what it read once the claim store remembers by itself', async (t) => {
    const { gateway } = await aGatewayReadBack(t);
    const { txnId } = aPayment();
    assert.notEqual(gateway.readBack.provenNew(txnId), undefined);
    // As all markers are after a day.
    const claims = {
      ...gateway.claims,
      read: () => Promise.resolve({ outcome: 'unknown' } as const),
    };
    const readBack = readBackLosses({ ...gateway, claims }, { underWayMs: 0 });
    await readBack.look();
    assert.equal(readBack.provenNew(txnId), undefined);
    assert.deepEqual(readBack.state(), { state: 'warm' });
  });

  it('reads a day of a hundred thousand payments back, each by its id, within its share of five minutes a million', async (t) => {
    const { gateway, database, forgetClaims } = await aGatewayReadBack(t);
    await database.open().query(aDayOfPayments, [100_000]);
    await forgetClaims();
    await gateway.recovery.prepare();
    let [count, most] = [0, 0];
    const ledger = {
      async *postedWithin(ms: number) {
        for await (const portion of gateway.ledger.postedWithin(ms)) {
          count += portion.ids.length;
          most = Math.max(most, portion.ids.length);
          yield portion;
        }
      },
    };
    const readBack = readBackLosses({ ...gateway, ledger }, { underWayMs: 0 });
    const [begin, cpu] = [performance.now(), process.cpuUsage()];
    await readBack.look();
    const tookMs = performance.now() - begin;
    const { user, system } = process.cpuUsage(cpu);
    assert.deepEqual(readBack.state(), { state: 'warm' });
    assert.ok(count >= 95_000 && count <= 100_100, `${count} ids`);
    assert.ok(most < 20_000, `${most} ids at once`);
    const rows = database
      .open()
      .query<{ txn_id: TxnId }>(
        `SELECT txn_id FROM ledger.transactions WHERE settled_at > now() - interval '24 hours'`,
      );
    const missed = (await rows).filter(({ txn_id: id }) => readBack.provenNew(id) !== undefined);
    assert.deepEqual(missed, []);
    t.diagnostic(`${count} ids in ${tookMs.toFixed(0)} ms, ${(user + system) / 1_000} ms of CPU`);
    assert.ok(tookMs < 30_000);
  });
});

/** So many payments, spread over the last 25 hours. */
const aDayOfPayments = `
  INSERT INTO ledger.transactions (
    txn_id, kind, partner_id, idempotency_key, fingerprint, response_version, created_at,
    amount, currency, state, settled_at, events
  )
  SELECT overlay(overlay(md5('day' || n)::text PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid,
    'payment', 'acme', 'day-' || n, sha256(n::text::bytea), 1, at, 100, 'EUR', 'succeeded', at, 1
  FROM generate_series(1, $1::integer) AS n,
    LATERAL (SELECT now() - interval '25 hours' * (1 - n::float8 / $1::integer)) AS t (at)`;
