import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openRedisClaims } from '@triplock/claims';
import { decodeAccepted, type EncodedRecord } from '@triplock/contracts';
import type { PostedPortion } from '@triplock/ledger';
import type { AcceptedPayment, Payment, TxnId } from '@triplock/payments';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestKeyspace } from '@triplock/testing';
import type { Gateway } from '../gateway.ts';
import { openBacklog } from '../http/admission.ts';
import { gatewayMetrics } from '../http/metrics.ts';
import { anOrder, partialGateway } from '../test/gateway.ts';
import { acceptTransaction } from './accept-transaction.ts';
import { askTogether } from './ledger-questions.ts';
import { recoverLosses } from './loss-recovery.ts';
import { readBackLosses } from './read-back.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** What happens, each once, to two gateways over one claim store, one topic and one ledger. */
const steps = [
  'a partner pays',
  'workers post',
  'claims are lost',
  'gateways begin to read back',
  'gateways have read back',
  'claims are lost again',
  'another partner pays',
] as const;
type Step = (typeof steps)[number];

/** Gateways have read back no sooner than they began. */
const isPossible = (order: readonly Step[]) =>
  order.indexOf('gateways begin to read back') < order.indexOf('gateways have read back');

function ordersOf(left: readonly Step[]): Step[][] {
  if (left.length === 0) return [[]];
  return left.flatMap((step) =>
    ordersOf(left.filter((each) => each !== step)).map((rest) => [step, ...rest]),
  );
}

/** A topic of one partition and a ledger that has of it what was posted, in memory. */
function aTopicAndLedger() {
  const records: AcceptedPayment[] = [];
  let posted = 0;
  const rows = new Map<TxnId, Payment>();
  return {
    records,
    post: () => {
      for (const payment of records.slice(posted)) {
        if (rows.has(payment.txnId)) continue;
        const settled = { state: 'succeeded', version: 1, settledAt: new Date() } as const;
        rows.set(payment.txnId, { ...payment, ...settled, amountRefunded: 0n });
      }
      posted = records.length;
    },
    append: async (record: EncodedRecord) => {
      const [key, value] = [Buffer.from(record.key), Buffer.from(record.value)];
      const decoded = decodeAccepted({ key, value, headers: record.headers });
      assert.ok(decoded.outcome === 'payment');
      records.push(decoded.payment);
    },
    offsets: {
      end: async () => new Map([[0, BigInt(records.length)]]),
      committed: async () => new Map([[0, BigInt(posted)]]),
      since: async () => new Map([[0, BigInt(records.length)]]),
    },
    ledger: {
      isEmpty: async () => rows.size === 0,
      find: async (txnId: TxnId) => rows.get(txnId),
      kindsOf: async (ids: readonly TxnId[]) =>
        new Map(ids.flatMap((id) => (rows.has(id) ? [[id, rows.get(id)!.kind] as const] : []))),
      idsNow: () => [...rows.keys()],
    },
  };
}

test('in every order of losses, payments, posting and reading back, a used key is never taken for a new one', async (t) => {
  const orders = ordersOf(steps).filter(isPossible);
  assert.equal(orders.length, 2_520);
  const keys = await createTestKeyspace(t);
  const claims = await openRedisClaims({ ...keys, logger });
  t.after(() => claims.close());
  // So many take minutes: each fourteenth, which begin with every step.
  const tried = orders.filter((_, nth) => nth % 14 === 0);
  let [readBack, accepted] = [0, 0];
  for (const order of tried) {
    await keys.forget();
    const run = await runOrder(claims, keys.forget, order).catch((error: unknown) => {
      throw new Error(order.join(', then '), { cause: error });
    });
    readBack += run.wasReadBack ? 1 : 0;
    accepted += run.accepted;
  }
  t.diagnostic(`${tried.length} orders, ${readBack} of them read back, ${accepted} accepted`);
  // In a good part of them there was something to see.
  assert.ok(readBack > tried.length / 5 && accepted > tried.length);
});

async function runOrder(
  claims: Gateway['claims'],
  forget: () => Promise<void>,
  order: readonly Step[],
): Promise<{ wasReadBack: boolean; accepted: number }> {
  const world = aTopicAndLedger();
  const [one, other] = [aGateway(claims, world), aGateway(claims, world)];
  const used = new Map<string, AcceptedPayment>();
  const outcomeOf = async ({ gateway }: typeof one, payment: AcceptedPayment) =>
    (await acceptTransaction(gateway, anOrder(payment))).outcome;
  const pay = async (at: typeof one, payment = aPayment()) => {
    const outcome = await outcomeOf(at, payment);
    if (outcome === 'accepted') used.set(payment.key, payment);
    else assert.ok(['cold', 'unavailable'].includes(outcome), outcome);
  };
  const otherBody = ({ key }: AcceptedPayment) => aPayment({ key, amount: 9_999n });
  const checkUsed = async (sure: boolean) => {
    for (const payment of used.values()) {
      for (const at of [one, other]) {
        const outcome = await outcomeOf(at, otherBody(payment));
        assert.ok(outcome === 'reused' || (!sure && outcome === 'cold'), outcome);
        const again = await outcomeOf(at, payment);
        assert.ok(again === 'replayed' || (!sure && again === 'cold'), again);
      }
    }
  };

  // What is there before: one is posted, so that the topic is no new one.
  await pay(one);
  world.post();
  assert.equal(used.size, 1);
  let wasReadBack = false;
  const take: Record<Step, () => Promise<void> | void> = {
    'a partner pays': () => pay(one),
    'another partner pays': () => pay(other),
    'workers post': () => world.post(),
    'claims are lost': forget,
    'claims are lost again': forget,
    'gateways begin to read back': async () => {
      await Promise.all([one.beginReading(), other.beginReading()]);
    },
    'gateways have read back': async () => {
      await Promise.all([one.endReading(), other.endReading()]);
      wasReadBack = one.gateway.readBack.provenNew(aPayment().txnId) !== undefined;
    },
  };
  for (const step of order) {
    await take[step]();
    await checkUsed(false);
  }
  world.post();
  for (const at of [one, other]) await at.lookTwice();
  await checkUsed(true);
  const perKey = Map.groupBy(world.records, ({ key }) => key);
  for (const [key, records] of perKey) {
    assert.equal(new Set(records.map(({ fingerprint }) => fingerprint)).size, 1, key);
  }
  return { wasReadBack, accepted: used.size };
}

/** A gateway of which a test decides when it goes on reading the ledger. */
function aGateway(claims: Gateway['claims'], world: ReturnType<typeof aTopicAndLedger>) {
  const { offsets, append } = world;
  let isHeld = false;
  let goOn = Promise.withResolvers<void>();
  let reached = Promise.withResolvers<void>();
  const ledger = {
    ...world.ledger,
    async *postedWithin(): AsyncGenerator<PostedPortion> {
      yield { ids: world.ledger.idsNow(), part: 0.5 };
      reached.resolve();
      if (isHeld) await goOn.promise;
      yield { ids: [], part: 1 };
    },
  } as unknown as Gateway['ledger'];
  const recovery = recoverLosses({ claims, ledger, offsets, logger }, { apartMs: 0 });
  const losses = { claims, ledger, recovery, wholeLedger: async () => 'the ledger', logger };
  const readBack = readBackLosses(losses, { underWayMs: 0 });
  const gateway = partialGateway({
    claims,
    recovery,
    readBack,
    ledger,
    log: { append } as Gateway['log'],
    unposted: { add: () => {}, renew: async () => {} },
    backlogs: { claims: openBacklog(), appends: openBacklog() },
    questions: askTogether(ledger, { limitMs: 2_200, count: () => {} }),
    metrics: gatewayMetrics(createMetrics('test')),
    crashPoints: createCrashPoints(),
  });
  let looking = Promise.resolve();
  const lookTwice = async () => {
    // The first notes a loss that nobody has met.
    await readBack.look();
    await readBack.look();
  };
  return {
    gateway,
    lookTwice,
    beginReading: async () => {
      [isHeld, goOn, reached] = [true, Promise.withResolvers(), Promise.withResolvers()];
      looking = lookTwice();
      await Promise.race([reached.promise, looking]);
    },
    endReading: async () => {
      isHeld = false;
      goOn.resolve();
      await looking;
    },
  };
}
