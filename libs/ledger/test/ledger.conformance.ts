import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { deriveEventId, deriveKeyConflictId, type TxnId } from '@triplock/payments';
import { aPayment, everyField } from '@triplock/testing';
import fc from 'fast-check';
import {
  bookTransferOf,
  count,
  type LedgerUnderTest,
  pendingOf,
  settledAs,
  settledNow,
} from './under-test.ts';
import { UnpostableError } from '../ledger.ts';
import { listing } from './listing.conformance.ts';
import { settling } from './settling.conformance.ts';

type Open = (context: TestContext) => Promise<LedgerUnderTest>;

/**
 * What every ledger promises, whatever it is stored in. `shared` is how many
 * payments are in both of two batches that race, and `rounds` how often two do: an emulator takes
 * the square of their rows for each.
 */
export function ledgerConformance(
  name: string,
  open: Open,
  { shared = 20, rounds = 20 } = {},
): void {
  suite(name, () => {
    posting(open);
    conflicts(open);
    races(open, { shared, rounds });
    settling(open);
    refusals(open);
    reading(open);
    listing(open);
  });
}

function posting(open: Open): void {
  test('a book transfer is posted with its entry and its event in one step', async (context) => {
    const { ledger, entries, events } = await open(context);
    const transfer = bookTransferOf(aPayment({ partner: 'acme', amount: 1_250n }));
    const { txnId } = transfer.payment;
    assert.deepEqual(await ledger.post([transfer]), [{ outcome: 'posted' }]);
    assert.deepEqual(await entries(), [
      { txnId, debit: 'acme:clearing', credit: 'acme:payable', amount: 1_250n },
    ]);
    const [event, ...more] = await events();
    assert.deepEqual(more, []);
    assert.equal(event?.eventId, deriveEventId(txnId, 'payment.succeeded'));
    assert.equal(event.sequence, 1);
    const written = JSON.parse(event.payload) as { event_id: string; data: { status: string } };
    assert.deepEqual([written.event_id, written.data.status], [event.eventId, 'succeeded']);
  });

  test('a payment posted without a settlement moves no money and has no event', async (context) => {
    const { ledger, entries, events } = await open(context);
    assert.deepEqual(await ledger.post([pendingOf(aPayment())]), [{ outcome: 'posted' }]);
    assert.deepEqual([await entries(), await events()], [[], []]);
  });

  test('a payment posted as failed has an event with the reason and moves no money', async (context) => {
    const { ledger, entries, events } = await open(context);
    const failure = { code: 'card_declined', message: 'declined' };
    const payment = aPayment();
    await ledger.post([settledAs(payment, { state: 'failed', failure })]);
    assert.deepEqual(await entries(), []);
    assert.deepEqual(
      (await events()).map((event) => event.eventType),
      ['payment.failed'],
    );
    assert.deepEqual((await ledger.find(payment.txnId))?.failure, failure);
  });

  test('an empty batch posts nothing', async (context) => {
    const { ledger } = await open(context);
    assert.deepEqual(await ledger.post([]), []);
    assert.equal(await ledger.isEmpty(), true);
  });
}

function conflicts(open: Open): void {
  test('a finished payment posted again is already recorded and writes nothing', async (context) => {
    const { ledger, entries, events } = await open(context);
    const transfer = bookTransferOf(aPayment());
    await ledger.post([transfer]);
    assert.deepEqual(await ledger.post([transfer]), [
      { outcome: 'already-recorded', state: 'succeeded' },
    ]);
    assert.deepEqual([(await entries()).length, (await events()).length], [1, 1]);
  });

  test('duplicates inside a batch are posted once and reported as such', async (context) => {
    const { ledger, entries, events } = await open(context);
    const first = bookTransferOf(aPayment({ key: 'one' }));
    const loser = bookTransferOf(aPayment({ key: 'one', amount: 7n }));
    const waiting = pendingOf(aPayment({ key: 'two' }));
    assert.deepEqual(await ledger.post([first, waiting, first, loser, waiting]), [
      { outcome: 'posted' },
      { outcome: 'posted' },
      { outcome: 'already-recorded', state: 'succeeded' },
      { outcome: 'key-conflict', winner: first.payment.fingerprint },
      { outcome: 'unfinished', version: 1 },
    ]);
    assert.deepEqual([(await entries()).length, (await events()).length], [1, 1]);
  });

  test('a row that somebody began is unfinished until it is settled', async (context) => {
    const { ledger } = await open(context);
    const payment = aPayment();
    await ledger.post([pendingOf(payment)]);
    assert.deepEqual(await ledger.post([bookTransferOf(payment)]), [
      { outcome: 'unfinished', version: 1 },
    ]);
    assert.equal((await ledger.find(payment.txnId))?.state, 'pending');
  });

  test('a key used for another request conflicts, finished or not', async (context) => {
    const { ledger } = await open(context);
    for (const key of ['finished', 'unfinished']) {
      const winner = aPayment({ key });
      await ledger.post([key === 'finished' ? bookTransferOf(winner) : pendingOf(winner)]);
      const loser = aPayment({ key, amount: winner.details.money.amount + 1n });
      assert.deepEqual(await ledger.post([bookTransferOf(loser)]), [
        { outcome: 'key-conflict', winner: winner.fingerprint },
      ]);
      assert.deepEqual((await ledger.find(winner.txnId))?.details, winner.details);
    }
  });

  test('a key conflict has one event per losing request, whatever its redeliveries', async (context) => {
    const { ledger, events } = await open(context);
    const losers = [7n, 8n].map((amount) => bookTransferOf(aPayment({ key: 'one', amount })));
    for (const loser of [...losers, ...losers]) {
      const { txnId, fingerprint } = loser.payment;
      const id = await ledger.recordKeyConflict(loser);
      assert.equal(id, deriveKeyConflictId(txnId, fingerprint));
    }
    const written = await events();
    assert.equal(written.length, 2);
    assert.ok(written.every(({ eventType }) => eventType === 'payment.key_conflict'));
    assert.ok(written.every(({ sequence }) => sequence === null));
  });
}

function races(open: Open, { shared, rounds }: { shared: number; rounds: number }): void {
  test('two overlapping batches in opposite order post each payment once', async (context) => {
    const { ledger, another, entries, events } = await open(context);
    for (let round = 0; round < rounds; round += 1) {
      const batch = Array.from({ length: 3 * shared }, () => bookTransferOf(aPayment()));
      const [one, two] = await Promise.all([
        ledger.post(batch.slice(0, 2 * shared)),
        another.post(batch.slice(shared).reverse()),
      ]);
      const both = [...one.slice(shared), ...two.slice(-shared)];
      assert.equal(count([...one, ...two], 'posted'), 3 * shared);
      assert.equal(count(both, 'already-recorded'), shared);
    }
    const all = rounds * 3 * shared;
    assert.deepEqual([(await entries()).length, (await events()).length], [all, all]);
  });

  test('ten workers racing on one key with two requests keep one of them', async (context) => {
    const { ledger, another, entries } = await open(context);
    const contenders = [3n, 4n].map((amount) => bookTransferOf(aPayment({ key: 'one', amount })));
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, n) => [ledger, another][n % 2]!.post([contenders[n % 2]!])),
    );
    assert.equal(count(outcomes.flat(), 'posted'), 1);
    assert.equal(count(outcomes.flat(), 'already-recorded'), 4);
    assert.equal(count(outcomes.flat(), 'key-conflict'), 5);
    assert.equal((await entries()).length, 1);
  });

  test('whatever two workers post at once, each id has one row, one entry and one event, of one amount', async (context) => {
    const { ledger, another, entries, events } = await open(context);
    const batches = fc.array(
      fc.record({ key: fc.integer({ min: 0, max: 12 }), amount: fc.bigInt(1n, 2n) }),
      { maxLength: 15 },
    );
    let world = 0;
    await fc.assert(
      fc.asyncProperty(batches, batches, async (one, two) => {
        world += 1;
        const made = [one, two].map((wishes) =>
          wishes.map(({ key, amount }) =>
            bookTransferOf(aPayment({ key: `${world}/${key}`, amount })),
          ),
        );
        const outcomes = await Promise.all([ledger.post(made[0]!), another.post(made[1]!)]);
        const ids = new Set(made.flat().map(({ payment }) => payment.txnId));
        assert.equal(count(outcomes.flat(), 'posted'), ids.size);
      }),
      { numRuns: 30 },
    );
    const moved = (await entries()).map(({ txnId, amount }) => `${txnId} ${amount}`).sort();
    const written = (await events()).map(({ payload }) => {
      const { data } = JSON.parse(payload) as { data: { id: string; amount: number } };
      return `${data.id} ${data.amount}`;
    });
    assert.deepEqual(moved, written.sort());
    assert.equal(new Set(moved.map((line) => line.split(' ')[0])).size, moved.length);
  });
}

function refusals(open: Open): void {
  test('one row that can never be stored fails its batch as unpostable, and none of it was written', async (context) => {
    const { ledger, entries, events } = await open(context);
    const good = aPayment();
    const bad = [
      aPayment({ reference: 'NUL \u0000 in a text' }),
      aPayment({ metadata: { name: '\u0000' } }),
      aPayment({ description: 'half a surrogate \ud800' }),
      aPayment({ amount: 1_000_000_000_000n }),
      aPayment({ amount: 0n }),
      aPayment({ currency: 'eur' }),
    ];
    for (const each of bad) {
      const batch = [bookTransferOf(good), bookTransferOf(each)];
      await assert.rejects(ledger.post(batch), UnpostableError);
    }
    assert.equal(await ledger.isEmpty(), true);
    assert.deepEqual([await entries(), await events()], [[], []]);
    assert.deepEqual(await ledger.post([bookTransferOf(good)]), [{ outcome: 'posted' }]);
  });
}

function reading(open: Open): void {
  test('a payment is found again as it was accepted, to the byte', async (context) => {
    const { ledger } = await open(context);
    const { paymentMethod, ...texts } = everyField;
    const payments = [
      aPayment(),
      aPayment({ partner: 'globex', amount: 999_999_999_999n, currency: 'JPY', metadata: {} }),
      aPayment(texts),
    ];
    await ledger.post(payments.map(bookTransferOf));
    for (const payment of payments) {
      const { state, version, amountRefunded, settledAt, ...accepted } = (await ledger.find(
        payment.txnId,
      ))!;
      assert.deepEqual(accepted, payment);
      assert.deepEqual([state, version, amountRefunded], ['succeeded', 1, 0n]);
      assert.deepEqual(settledAt, settledNow);
    }
    assert.equal(await ledger.find(aPayment().txnId), undefined);
    assert.equal(await ledger.isEmpty(), false);
  });

  test('of many ids those are told that were posted, each with its kind', async (context) => {
    const { ledger, another } = await open(context);
    const ids = Array.from({ length: 300 }, () => aPayment().txnId);
    assert.deepEqual(await ledger.kindsOf(ids), new Map());
    const [one, other] = [aPayment(), aPayment()];
    await ledger.post([bookTransferOf(one), pendingOf(other)]);
    const asked = [...ids, one.txnId, other.txnId, one.txnId];
    const kinds = [one, other].map(({ txnId, kind }) => [txnId, kind] as const);
    assert.deepEqual(await another.kindsOf(asked), new Map(kinds));
    assert.deepEqual(await ledger.kindsOf([]), new Map());
  });

  test('what was posted lately is read back whole, pending or settled, with some that is older', async (context) => {
    const { ledger, another } = await open(context);
    const readBack = async (ms: number) => {
      const ids = new Set<TxnId>();
      const parts: number[] = [];
      for await (const portion of another.postedWithin(ms)) {
        for (const id of portion.ids) ids.add(id);
        parts.push(portion.part);
      }
      assert.deepEqual(
        parts,
        parts.toSorted((a, b) => a - b),
      );
      assert.equal(parts.at(-1), 1);
      return ids;
    };
    assert.equal((await readBack(300_000)).size, 0);
    // Accepted long ago, and posted now.
    const late = { ...aPayment(), acceptedAt: new Date('2020-01-01') };
    const [pending, failed, transfer] = [aPayment(), aPayment(), aPayment()];
    const failure = { code: 'card_declined', message: 'declined' };
    const settledAt = new Date();
    await ledger.post([
      pendingOf(pending),
      settledAs(failed, { state: 'failed', failure }, settledAt),
      settledAs(transfer, { state: 'succeeded' }, settledAt),
      settledAs(late, { state: 'succeeded' }, settledAt),
    ]);
    const all = [pending, failed, transfer, late].map(({ txnId }) => txnId);
    const found = await readBack(300_000);
    assert.deepEqual(
      all.filter((id) => !found.has(id)),
      [],
    );
    // A worker's clock that is ahead.
    const ahead = aPayment();
    const tomorrow = new Date(Date.now() + 86_400_000);
    await ledger.post([settledAs(ahead, { state: 'succeeded' }, tomorrow)]);
    assert.ok((await readBack(300_000)).has(ahead.txnId));
  });
}
