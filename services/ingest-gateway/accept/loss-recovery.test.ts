import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  bucketCount,
  type EncodedRecord,
  encodePaymentAccepted,
  renderAccepted,
} from '@triplock/contracts';
import { bucketOf, type AcceptedPayment } from '@triplock/payments';
import { startBudget } from '@triplock/runtime';
import { aPayment, appendInTransaction, aRefund } from '@triplock/testing';
import { partitionOfKey } from '@triplock/transport';
import { anOrder, aPaymentBeside, aRefundOrder, openTestGateway } from '../test/gateway.ts';
import { acceptTransaction } from './accept-transaction.ts';
import { findTransaction } from './find-transaction.ts';
import { askTogether } from './ledger-questions.ts';
import { recoverLosses } from './loss-recovery.ts';

describe('a gateway whose claims were lost', () => {
  it('answers a posted payment from the ledger: the same bytes, or 422 for another body', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const payment = aPayment({ reference: 'R-1', metadata: { z: 'Ω', a: '' } });
    await acceptTransaction(gateway, anOrder(payment));
    await catchUp();
    await forgetClaims();
    const retry = await acceptTransaction(gateway, anOrder({ ...payment, acceptedAt: new Date() }));
    assert.deepEqual(retry, { outcome: 'replayed', answer: renderAccepted(payment) });
    const other = aPayment({ key: payment.key, amount: 1n });
    assert.deepEqual(await acceptTransaction(gateway, anOrder(other)), { outcome: 'reused' });
    assert.equal(await appended(), 1n);
  });

  it('knows nothing of unposted keys until the ledger has passed the barrier', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const payment = aPayment();
    const fresh = aPaymentBeside(payment);
    await acceptTransaction(gateway, anOrder(payment));
    await forgetClaims();
    assert.deepEqual(await acceptTransaction(gateway, anOrder(payment)), { outcome: 'cold' });
    assert.deepEqual(await acceptTransaction(gateway, anOrder(fresh)), { outcome: 'cold' });
    await catchUp();
    const retry = await acceptTransaction(gateway, anOrder(payment));
    assert.deepEqual(retry, { outcome: 'replayed', answer: renderAccepted(payment) });
    assert.equal((await acceptTransaction(gateway, anOrder(fresh))).outcome, 'accepted');
    assert.equal((await acceptTransaction(gateway, anOrder(fresh))).outcome, 'replayed');
    assert.equal(await appended(), 2n);
  });

  it('answers what is posted although the ledger is behind with the rest', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    const [posted, waiting] = [aPayment(), aPayment()];
    await acceptTransaction(gateway, anOrder(posted));
    await catchUp();
    await acceptTransaction(gateway, anOrder(waiting));
    await forgetClaims();
    assert.equal((await acceptTransaction(gateway, anOrder(posted))).outcome, 'replayed');
    assert.equal((await acceptTransaction(gateway, anOrder(waiting))).outcome, 'cold');
  });

  it('knows what it accepts of which the claim is lost under way, before it is posted', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder(aPayment()));
    await catchUp();
    const append = async (record: EncodedRecord) => {
      await forgetClaims();
      // The barrier is before the record, and is passed: the ledger has all up to there.
      await gateway.recovery.prepare();
      await gateway.log.append(record);
    };
    const payment = aPayment();
    const losing = { ...gateway, log: { ...gateway.log, append } };
    const accepted = await acceptTransaction(losing, anOrder(payment));
    assert.equal(accepted.outcome, 'accepted');
    assert.equal((await findTransaction(gateway, payment)).outcome, 'found');
    const retry = await acceptTransaction(gateway, anOrder(payment));
    assert.deepEqual(retry, { outcome: 'replayed', answer: renderAccepted(payment) });
    const other = aPayment({ key: payment.key, amount: 1n });
    assert.deepEqual(await acceptTransaction(gateway, anOrder(other)), { outcome: 'reused' });
    assert.equal(await appended(), 2n);
  });

  it('does not wait for what is in the topic and no record: the marker of a transaction', async (t) => {
    const { gateway, forgetClaims, catchUp, topic } = await openTestGateway(t);
    const restored = aPayment();
    const { key, value, headers } = encodePaymentAccepted(restored, '');
    for (const end of ['abort', 'commit'] as const) {
      await appendInTransaction(topic, { message: { key, value, headers }, end });
    }
    assert.deepEqual(await catchUp(), [restored]);
    await forgetClaims();
    // A key of the partition that ends with the marker.
    const refund = aRefund(restored, { amount: 1n });
    assert.equal((await acceptTransaction(gateway, aRefundOrder(refund))).outcome, 'accepted');
    assert.equal((await acceptTransaction(gateway, anOrder())).outcome, 'accepted');
  });

  it('waits for the partition of a key alone, which for a refund is that of its payment', async (t) => {
    const { gateway, forgetClaims, catchUp, topic } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    await catchUp();
    const own = partitionOfKey(payment.txnId, 2);
    // What no worker has read, in the other partition and then in this one.
    const unread = (partition: number) =>
      appendInTransaction(topic, { message: { value: 'unread', partition }, end: 'commit' });
    await unread(1 - own);
    await forgetClaims();
    // Their own ids would lead to the other one.
    const misleading = () => {
      for (;;) {
        const refund = aRefund(payment, { amount: 1n });
        if (partitionOfKey(refund.txnId, 2) !== own) return aRefundOrder(refund);
      }
    };
    assert.equal((await acceptTransaction(gateway, misleading())).outcome, 'accepted');
    await unread(own);
    await forgetClaims();
    assert.equal((await acceptTransaction(gateway, misleading())).outcome, 'cold');
  });

  it('takes no answer of the ledger across another loss', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    await catchUp();
    await forgetClaims();
    const isPosted: typeof gateway.questions.isPosted = async (asked) => {
      const found = await gateway.questions.isPosted(asked);
      await forgetClaims();
      return found;
    };
    const payment = aPayment();
    const questions = { ...gateway.questions, isPosted };
    const outcome = await acceptTransaction({ ...gateway, questions }, anOrder(payment));
    assert.deepEqual(outcome, { outcome: 'cold' });
    assert.equal(await appended(), 1n);
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'accepted');
  });

  it('asks the ledger once for many that come together, and each gets its own answer', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const posted = Array.from({ length: 40 }, () => aPayment());
    for (const payment of posted) await acceptTransaction(gateway, anOrder(payment));
    await catchUp();
    await forgetClaims();
    await gateway.recovery.prepare();
    const asked: number[] = [];
    const kindsOf: typeof gateway.ledger.kindsOf = (ids) => {
      asked.push(ids.length);
      return gateway.ledger.kindsOf(ids);
    };
    const questions = askTogether({ kindsOf }, { limitMs: 60_000, count: () => {} });
    const patient = (payment: AcceptedPayment) =>
      acceptTransaction(
        { ...gateway, questions },
        { ...anOrder(payment), budget: startBudget(60_000) },
      );
    const others = posted.map(({ key }) => aPayment({ key, amount: 9_999n }));
    const fresh = posted.map(() => aPayment());
    const outcomes = await Promise.all([...posted, ...others, ...fresh].map(patient));
    const expected = [
      ...posted.map((payment) => ({ outcome: 'replayed', answer: renderAccepted(payment) })),
      ...others.map(() => ({ outcome: 'reused' })),
      ...fresh.map((payment) => ({ outcome: 'accepted', answer: renderAccepted(payment) })),
    ];
    assert.deepEqual(outcomes, expected);
    assert.equal(await appended(), 80n);
    // They come as the claim store answers, by the hundred, and behind Kafka's first answer.
    assert.ok(asked.length <= 10, JSON.stringify(asked));
  });

  it('claims nothing on the word of a server that lacks what the one before it knew', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    await catchUp();
    await forgetClaims();
    const ledger = { ...gateway.ledger, find: () => Promise.resolve(undefined) };
    const outcome = await acceptTransaction({ ...gateway, ledger }, anOrder(payment));
    assert.deepEqual(outcome, { outcome: 'cold' });
    assert.equal(await appended(), 1n);
  });

  it('claims a new key once where its bucket was cold a moment ago, by the ledger’s word', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const known = aPayment();
    await acceptTransaction(gateway, anOrder(known));
    await catchUp();
    await forgetClaims();
    const claimed: boolean[] = [];
    const claim: typeof gateway.claims.claim = (request) => {
      claimed.push(request.ledgerCheckedIn !== undefined);
      return gateway.claims.claim(request);
    };
    const counted = { ...gateway, claims: { ...gateway.claims, claim } };
    // The first notes the loss, the second meets it.
    const [first, second, third] = [inBucketOf(known), inBucketOf(known), inBucketOf(known)];
    for (const payment of [first, second]) {
      assert.equal((await acceptTransaction(counted, anOrder(payment))).outcome, 'accepted');
      assert.deepEqual(claimed.splice(0), [false, true]);
    }
    assert.equal((await acceptTransaction(counted, anOrder(third))).outcome, 'accepted');
    assert.deepEqual(claimed.splice(0), [true]);
    // Claimed since the loss, or posted before it: as ever.
    for (const payment of [first, second, third, known]) {
      const retry = await acceptTransaction(counted, anOrder(payment));
      assert.deepEqual(retry, { outcome: 'replayed', answer: renderAccepted(payment) });
      const other = aPayment({ key: payment.key, amount: 9_999n });
      assert.deepEqual(await acceptTransaction(counted, anOrder(other)), { outcome: 'reused' });
    }
    assert.equal(await appended(), 4n);
  });

  it('takes no answer of the ledger across another loss where its bucket was cold a moment ago', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const known = aPayment();
    await acceptTransaction(gateway, anOrder(known));
    await catchUp();
    await forgetClaims();
    const [before, accepted] = [inBucketOf(known), inBucketOf(known)];
    for (const payment of [before, accepted]) {
      assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'accepted');
    }
    // Its record is not posted, and its claim is lost between the ledger's answer and the claim.
    const isPostedSoon: typeof gateway.questions.isPostedSoon = async (asked) => {
      const found = await gateway.questions.isPostedSoon(asked);
      assert.equal(found, false);
      await forgetClaims();
      return found;
    };
    const questions = { ...gateway.questions, isPostedSoon };
    const other = aPayment({ key: accepted.key, amount: 9_999n });
    const outcome = await acceptTransaction({ ...gateway, questions }, anOrder(other));
    assert.deepEqual(outcome, { outcome: 'cold' });
    await catchUp();
    assert.deepEqual(await acceptTransaction(gateway, anOrder(other)), { outcome: 'reused' });
    assert.equal(await appended(), 3n);
  });

  it('does not take what the ledger said before it has caught up for its word', async (t) => {
    const { gateway, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    await forgetClaims();
    const other = aPayment({ key: payment.key, amount: 9_999n });
    for (let n = 0; n < 3; n += 1) {
      assert.deepEqual(await acceptTransaction(gateway, anOrder(other)), { outcome: 'cold' });
    }
    await catchUp();
    assert.deepEqual(await acceptTransaction(gateway, anOrder(other)), { outcome: 'reused' });
    assert.equal(await appended(), 1n);
  });

  it('answers for what was claimed since the loss while the ledger is away, and asks it less', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    const known = aPayment();
    await acceptTransaction(gateway, anOrder(known));
    await catchUp();
    await forgetClaims();
    const [before, payment] = [inBucketOf(known), inBucketOf(known)];
    for (const each of [before, payment]) {
      assert.equal((await acceptTransaction(gateway, anOrder(each))).outcome, 'accepted');
    }
    let asked = 0;
    const kindsOf = () => {
      asked += 1;
      return Promise.reject(new Error('PostgreSQL is away'));
    };
    const questions = askTogether({ kindsOf }, { limitMs: 2_200, count: () => {} });
    const without = { ...gateway, questions };
    for (let n = 0; n < 3; n += 1) {
      assert.equal((await acceptTransaction(without, anOrder(payment))).outcome, 'replayed');
    }
    assert.equal(asked, 1);
    const fresh = await acceptTransaction(without, anOrder(inBucketOf(known)));
    assert.equal(fresh.outcome, 'unavailable');
    assert.equal(asked, 2);
  });

  it('goes on where another gateway died between epoch and barrier', async (t) => {
    const { gateway, catchUp } = await openTestGateway(t);
    for (let bucket = 0; bucket < bucketCount; bucket += 1) await gateway.claims.noteLoss(bucket);
    assert.equal((await acceptTransaction(gateway, anOrder())).outcome, 'accepted');
    await catchUp();
  });

  it('reads the end of the topic only when every epoch is noted', async (t) => {
    const { gateway, offsets, forgetClaims } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    await forgetClaims();
    let epochs = 0;
    const noteLoss = async (bucket: number) => {
      const noted = await gateway.claims.noteLoss(bucket);
      epochs += 1;
      return noted;
    };
    const epochsAtEnd: number[] = [];
    const end = () => {
      epochsAtEnd.push(epochs);
      return offsets.end();
    };
    const claims = { ...gateway.claims, noteLoss };
    await recoverLosses({ ...gateway, claims, offsets: { ...offsets, end } }).prepare();
    assert.deepEqual(epochsAtEnd, [bucketCount]);
  });

  it('asks the topic once, however many requests meet the loss', async (t) => {
    const { gateway, offsets, forgetClaims, catchUp } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    await catchUp();
    await forgetClaims();
    const asked = { end: 0, committed: 0 };
    const counted = {
      ...offsets,
      end: () => ((asked.end += 1), offsets.end()),
      committed: () => ((asked.committed += 1), offsets.committed()),
    };
    const recovery = recoverLosses({ ...gateway, offsets: counted });
    // How soon is not what this is about, and 300 at once take a busy machine seconds.
    const patient = () => ({ ...anOrder(), budget: startBudget(60_000) });
    const outcomes = await Promise.all(
      Array.from({ length: 300 }, () => acceptTransaction({ ...gateway, recovery }, patient())),
    );
    assert.deepEqual(new Set(outcomes.map(({ outcome }) => outcome)), new Set(['accepted']));
    // Once for the barrier; to see who has passed it, for the first and for all who came meanwhile.
    assert.ok(asked.end <= 3 && asked.committed <= 2, JSON.stringify(asked));
  });

  it('answers that it does not know while Kafka is away, and writes nothing', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    await catchUp();
    await forgetClaims();
    const away = {
      end: () => Promise.reject(new Error('away')),
      committed: () => Promise.reject(new Error('away')),
      since: () => Promise.reject(new Error('away')),
    };
    const recovery = recoverLosses({ ...gateway, offsets: away });
    const other = aPayment({ key: payment.key, amount: 1n });
    const unknown = await acceptTransaction({ ...gateway, recovery }, anOrder(other));
    assert.equal(unknown.outcome, 'unavailable');
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'replayed');
  });
});

describe('a gateway that is new', () => {
  it('starts warm: the second request needs no ledger', async (t) => {
    const { gateway } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    const away = () => Promise.reject(new Error('PostgreSQL is away'));
    const ledger = { ...gateway.ledger, find: away, kindsOf: away };
    const questions = { isPosted: away, isPostedSoon: away, soon: away };
    const without = { ...gateway, ledger, questions };
    assert.equal((await acceptTransaction(without, anOrder())).outcome, 'accepted');
  });

  it('is cold when the topic is not empty, although the ledger is', async (t) => {
    const { gateway, forgetClaims } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    await forgetClaims();
    const another = anOrder(aPaymentBeside(payment));
    assert.deepEqual(await acceptTransaction(gateway, another), { outcome: 'cold' });
  });
});

/** Another payment, the claim of which goes to the same bucket, and its record to any partition. */
function inBucketOf({ txnId }: AcceptedPayment): AcceptedPayment {
  for (;;) {
    const other = aPayment();
    if (bucketOf(other.txnId, bucketCount) === bucketOf(txnId, bucketCount)) return other;
  }
}
