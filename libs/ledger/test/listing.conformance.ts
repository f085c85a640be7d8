import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { AcceptedPayment, PartnerId, TxnId } from '@triplock/payments';
import { aPayment } from '@triplock/testing';
import fc from 'fast-check';
import {
  bookTransferOf,
  type LedgerUnderTest,
  pendingOf,
  settledAs,
  settledNow,
  traceparent,
} from './under-test.ts';
import { pageBytesMax, type Ledger, type ListRequest } from '../ledger.ts';

type Open = (context: TestContext) => Promise<LedgerUnderTest>;

const acme = 'acme' as PartnerId;
const start = Date.parse('2026-03-04T05:06:07.089Z');

/** The part of the ledger's promises that is about lists of payments. */
export function listing(open: Open): void {
  order(open);
  filters(open);
  cursors(open);
  bytes(open);
  growth(open);
  sums(open);
}

function order(open: Open): void {
  test('a list shows a partner its own payments, newest first, then by id', async (context) => {
    const { ledger } = await open(context);
    assert.deepEqual(await pageOf(ledger, {}), []);
    const mine = [0, 1, 1, 1, 2].map((second) => acceptedAt(second));
    const others = [0, 1, 2].map((second) => acceptedAt(second, { partner: 'globex' }));
    await ledger.post([...mine, ...others].map(bookTransferOf));
    assert.deepEqual(await pageOf(ledger, {}), newestFirst(mine));
    const first = await ledger.list({ partnerId: acme, limit: 1 });
    assert.ok(first.outcome === 'page');
    assert.deepEqual(first.payments[0], await ledger.find(first.payments[0]!.txnId));
  });

  test('a page says whether there are more, also when it ends just there', async (context) => {
    const { ledger } = await open(context);
    const mine = [0, 1, 2].map((second) => acceptedAt(second));
    await ledger.post(mine.map(bookTransferOf));
    for (const [limit, hasMore] of [
      [2, true],
      [3, false],
      [4, false],
    ] as const) {
      const page = await ledger.list({ partnerId: acme, limit });
      assert.ok(page.outcome === 'page');
      assert.deepEqual([page.payments.length, page.hasMore], [Math.min(limit, 3), hasMore]);
    }
  });

  test('whatever the times and the size of pages, a walk gives each payment once, in order', async (context) => {
    const { ledger } = await open(context);
    const seconds = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 12 });
    let world = 0;
    await fc.assert(
      fc.asyncProperty(seconds, fc.integer({ min: 1, max: 5 }), async (times, limit) => {
        const partner = `partner-${(world += 1)}`;
        const posted = times.map((second) => acceptedAt(second, { partner }));
        await ledger.post(posted.map(bookTransferOf));
        const walked = await walk(ledger, { partnerId: partner as PartnerId, limit });
        assert.deepEqual(walked, newestFirst(posted));
      }),
      { numRuns: 25 },
    );
  });
}

function filters(open: Open): void {
  test('a list can be of one state, of one reference, of a time, and of all of them', async (context) => {
    const { ledger } = await open(context);
    const [pending, failed, done, plain] = [
      acceptedAt(0, { reference: 'a' }),
      acceptedAt(1, { reference: 'a' }),
      acceptedAt(2, { reference: 'b' }),
      acceptedAt(3),
    ];
    const failure = { code: 'card_declined', message: 'declined' };
    await ledger.post([
      pendingOf(pending),
      settledAs(failed, { state: 'failed', failure }),
      bookTransferOf(done),
      bookTransferOf(plain),
    ]);
    const cases: [Partial<ListRequest>, AcceptedPayment[]][] = [
      [{ status: 'pending' }, [pending]],
      [{ status: 'failed' }, [failed]],
      [{ status: 'succeeded' }, [plain, done]],
      [{ reference: 'a' }, [failed, pending]],
      [{ reference: 'a', status: 'failed' }, [failed]],
      [{ reference: '' }, []],
      [{ reference: 'a', after: failed.txnId }, [pending]],
      [{ since: failed.acceptedAt }, [plain, done, failed]],
      [{ until: failed.acceptedAt }, [pending]],
      [{ since: failed.acceptedAt, until: plain.acceptedAt }, [done, failed]],
      [{ since: failed.acceptedAt, until: failed.acceptedAt }, []],
      [{ since: failed.acceptedAt, reference: 'a' }, [failed]],
      [{ until: plain.acceptedAt, status: 'succeeded' }, [done]],
      [{ since: failed.acceptedAt, after: plain.txnId }, [done, failed]],
      [{ until: done.acceptedAt, after: plain.txnId }, [failed, pending]],
    ];
    for (const [wish, expected] of cases) {
      assert.deepEqual(await pageOf(ledger, wish), expected.map(idOf), JSON.stringify(wish));
    }
  });
}

function cursors(open: Open): void {
  test('a cursor that is unknown, or another partner’s, is no end of the list', async (context) => {
    const { ledger } = await open(context);
    const [mine, other] = [acceptedAt(0), acceptedAt(1, { partner: 'globex' })];
    await ledger.post([mine, other].map(bookTransferOf));
    assert.deepEqual(await pageOf(ledger, { after: mine.txnId }), []);
    for (const after of [other.txnId, aPayment().txnId]) {
      const outcome = await ledger.list({ partnerId: acme, limit: 5, after });
      assert.deepEqual(outcome, { outcome: 'unknown-cursor' });
    }
  });

  test('a walk goes on behind a payment that no longer has the state it was listed for', async (context) => {
    const { ledger, another } = await open(context);
    const [older, newer] = [acceptedAt(0), acceptedAt(1)];
    await ledger.post([older, newer].map((each) => pendingOf(each)));
    const status = 'pending';
    const first = await ledger.list({ partnerId: acme, limit: 1, status });
    assert.deepEqual(first.outcome === 'page' && first.payments.map(idOf), [newer.txnId]);
    const { txnId } = newer;
    const result = { state: 'succeeded' } as const;
    await another.settle({ txnId, version: 1, result, settledAt: settledNow, traceparent });
    assert.deepEqual(await pageOf(ledger, { status, after: txnId }), [older.txnId]);
  });
}

function bytes(open: Open): void {
  const long = (second: number, length: number) =>
    acceptedAt(second, { description: 'x'.repeat(500), metadata: { a: 'é'.repeat(length / 2) } });

  test('a page ends before it has more bytes than it may, and a walk gives each payment once', async (context) => {
    const { ledger } = await open(context);
    const mine = [9_000, 100, 9_000, 9_000, 20_000, 100, 100].map((length, n) => long(n, length));
    await ledger.post(mine.map(bookTransferOf));
    const all = newestFirst(mine);
    for (const [bytesMax, sizes] of [
      [1, [1, 1, 1, 1, 1, 1, 1]],
      [5_000, [2, 1, 1, 1, 1, 1]],
      [23_000, [2, 1, 3, 1]],
      [pageBytesMax, [7]],
    ] as const) {
      const pages: TxnId[][] = [];
      for (let more = true; more;) {
        const after = pages.at(-1)?.at(-1);
        const page = await ledger.list({ partnerId: acme, limit: 100, bytesMax, after });
        assert.ok(page.outcome === 'page');
        pages.push(page.payments.map(idOf));
        more = page.hasMore;
      }
      assert.deepEqual(
        pages.map(({ length }) => length),
        sizes,
        `${bytesMax}`,
      );
      assert.deepEqual(pages.flat(), all);
    }
  });

  test('a page of the longest payments is of a bounded size unless somebody asks for more', async (context) => {
    const { ledger } = await open(context);
    const mine = Array.from({ length: 12 }, (_, n) => long(n, 45_000));
    await ledger.post(mine.map(bookTransferOf));
    const page = await ledger.list({ partnerId: acme, limit: 100 });
    assert.ok(page.outcome === 'page');
    assert.deepEqual([page.payments.length, page.hasMore], [5, true]);
  });
}

function sums(open: Open): void {
  test('what is pending is the sum of what a partner has posted and is not final, by currency', async (context) => {
    const { ledger, another } = await open(context);
    assert.deepEqual(await ledger.pendingOf(acme), []);
    const amountMax = 999_999_999_999n;
    const mine = [5n, amountMax, amountMax].map((amount) => aPayment({ amount }));
    const yen = aPayment({ amount: 7n, currency: 'JPY' });
    const final = aPayment({ amount: 11n });
    const other = aPayment({ partner: 'globex', amount: 13n });
    await ledger.post([...mine, yen, other].map((each) => pendingOf(each)));
    await ledger.post([bookTransferOf(final)]);
    const { currency } = final.details.money;
    assert.deepEqual(await ledger.pendingOf(acme), [
      { currency, amount: 5n + 2n * amountMax },
      { currency: 'JPY', amount: 7n },
    ]);
    const failure = { code: 'card_declined', message: 'no' };
    const ends = [{ state: 'succeeded' }, { state: 'failed', failure }] as const;
    for (const [n, result] of ends.entries()) {
      const { txnId } = mine[n]!;
      await another.settle({ txnId, version: 1, result, settledAt: settledNow, traceparent });
    }
    assert.deepEqual(await ledger.pendingOf(acme), [
      { currency, amount: amountMax },
      { currency: 'JPY', amount: 7n },
    ]);
  });
}

function growth(open: Open): void {
  test('a walk gives everything posted before it once, whatever is posted meanwhile, and nothing twice', async (context) => {
    const { ledger, another } = await open(context);
    const before = Array.from({ length: 30 }, (_, at) => acceptedAt(at % 10));
    await ledger.post(before.map(bookTransferOf));
    // Newer than all, older than all, and in between, on both sides of wherever the walk is.
    const late = Array.from({ length: 90 }, (_, at) => acceptedAt((at % 20) - 5));
    let isWalking = true;
    const posting = async () => {
      for (const payment of late) if (isWalking) await another.post([bookTransferOf(payment)]);
    };
    const poster = posting();
    const walked = await walk(ledger, { partnerId: acme, limit: 3 });
    isWalking = false;
    await poster;
    assert.equal(new Set(walked).size, walked.length);
    const known = new Set(before.map(idOf));
    assert.deepEqual(
      walked.filter((id) => known.has(id)),
      newestFirst(before),
    );
  });

  test('a payment posted behind a walk is left to the next one, and one ahead is met', async (context) => {
    const { ledger, another } = await open(context);
    const [oldest, newest] = [acceptedAt(0), acceptedAt(10)];
    await ledger.post([oldest, newest].map(bookTransferOf));
    assert.deepEqual(await pageOf(ledger, { limit: 1 }), [newest.txnId]);
    // Accepted earlier, posted later: the order of posting is not that of the list.
    const [behind, ahead] = [acceptedAt(11), acceptedAt(5)];
    await another.post([behind, ahead].map(bookTransferOf));
    const rest = await pageOf(ledger, { after: newest.txnId });
    assert.deepEqual(rest, [ahead.txnId, oldest.txnId]);
    assert.deepEqual(await pageOf(ledger, {}), newestFirst([oldest, newest, behind, ahead]));
  });
}

function acceptedAt(second: number, wish: Parameters<typeof aPayment>[0] = {}): AcceptedPayment {
  return aPayment({ ...wish, acceptedAt: new Date(start + second * 1_000) });
}

async function pageOf(ledger: Ledger, wish: Partial<ListRequest>): Promise<TxnId[]> {
  const page = await ledger.list({ partnerId: acme, limit: 100, ...wish });
  assert.ok(page.outcome === 'page');
  return page.payments.map(idOf);
}

async function walk(ledger: Ledger, request: ListRequest): Promise<TxnId[]> {
  const walked: TxnId[] = [];
  for (;;) {
    const page = await ledger.list({ ...request, after: walked.at(-1) });
    assert.ok(page.outcome === 'page');
    walked.push(...page.payments.map(idOf));
    if (!page.hasMore) return walked;
  }
}

function newestFirst(payments: readonly AcceptedPayment[]): TxnId[] {
  const rank = ({ acceptedAt, txnId }: AcceptedPayment) => acceptedAt.toISOString() + txnId;
  return payments.toSorted((a, b) => (rank(a) < rank(b) ? 1 : -1)).map(idOf);
}

function idOf({ txnId }: { txnId: TxnId }): TxnId {
  return txnId;
}
