import type { TestContext } from 'node:test';
import { providerNames } from '@triplock/providers';
import { openRedisClaims, inspectRedisClaims } from '@triplock/claims';
import {
  currentApiVersion,
  decodeAccepted,
  type KeyScope,
  type UndecodedRecord,
} from '@triplock/contracts';
import {
  openPostgresContinuity,
  openPostgresFollowUps,
  openPostgresLedger,
} from '@triplock/ledger';
import {
  type AcceptedFollowUp,
  type AcceptedPayment,
  cardNumbersEverywhere,
  deriveId,
  type PartnerId,
} from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import {
  createCrashPoints,
  createLogger,
  createMetrics,
  createRateLimiter,
  startBudget,
  traceparentFrom,
  type Rate,
} from '@triplock/runtime';
import {
  aPayment,
  createTestDatabase,
  createTestKeyspace,
  createTestTopic,
  eventually,
  testNamespace,
  type TopicShape,
} from '@triplock/testing';
import {
  openGroupCommit,
  openTopicOffsets,
  partitionOfKey,
  runConsumer,
} from '@triplock/transport';
import { wholeLedger } from '../accept/find-key.ts';
import { askTogether } from '../accept/ledger-questions.ts';
import { recoverLosses } from '../accept/loss-recovery.ts';
import { readBackLosses } from '../accept/read-back.ts';
import type { Order, Transaction } from '../accept/transaction.ts';
import { watchUnposted } from '../accept/unposted.ts';
import type { Gateway } from '../gateway.ts';
import { openBacklog, type Admission } from '../http/admission.ts';
import { openTurns } from '../http/turns.ts';
import { gatewayMetrics } from '../http/metrics.ts';

type Accepted = AcceptedPayment | AcceptedFollowUp;

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

const partitions = 2;

/** Shorter times of its claims than usual. */
export type TestTimes = { leaseMs?: number; shownMs?: number };

/** A gateway on real stores of one test's own, and hands to break them with. */
export async function openTestGateway(
  t: TestContext,
  { timestamps, ...times }: TestTimes & Pick<TopicShape, 'timestamps'> = {},
) {
  const [keys, database, place] = await Promise.all([
    createTestKeyspace(t),
    createTestDatabase(t),
    createTestTopic(t, { partitions, ...(timestamps && { timestamps }) }),
  ]);
  const claims = await openRedisClaims({ ...keys, ...times, logger });
  const kafka = { ...place, clientId: 'test', logger };
  const groupId = testNamespace('ledger-worker');
  const log = openGroupCommit(kafka);
  const offsets = openTopicOffsets({ ...kafka, groupId });
  const ledger = openPostgresLedger(database.open('triplock_gateway'));
  t.after(() => Promise.all([claims.close(), log.close(), offsets.close()]));

  const metrics = createMetrics('test');
  const refunds = openPostgresFollowUps(database.open('triplock_gateway'));
  const continuity = openPostgresContinuity(database.open('triplock_gateway'));
  const recovery = recoverLosses({ claims, ledger, offsets, logger });
  const sameLedger = () => wholeLedger(continuity);
  const losses = { claims, ledger, recovery, wholeLedger: sameLedger, logger };
  const gateway = partialGateway({
    claims,
    recovery,
    // Nobody looks but a test: nothing is under way then.
    readBack: readBackLosses(losses, { underWayMs: 0 }),
    unposted: watchUnposted({ claims, offsets, logger }),
    log,
    backlogs: { claims: openBacklog(), appends: openBacklog() },
    ledger,
    questions: askTogether(ledger, { limitMs: 2_200, count: () => {} }),
    wholeLedger: sameLedger,
    refunds,
    metrics: gatewayMetrics(metrics),
    crashPoints: createCrashPoints(),
  });
  const appended = async () => {
    const end = await offsets.end();
    return [...end.values()].reduce((sum, offset) => sum + offset, 0n);
  };
  const caughtUp = async () => {
    const [end, committed] = await Promise.all([offsets.end(), offsets.committed()]);
    return [...end].every(([partition, offset]) => (committed.get(partition) ?? 0n) >= offset);
  };

  /** Posts everything in the topic, as the ledger's worker does, and gives the records it met. */
  const catchUp = async (): Promise<Accepted[]> => {
    const posted: Accepted[] = [];
    const writer = database.open('triplock_ledger');
    const consumer = runConsumer({
      ...kafka,
      groupId,
      handle: async ({ records }) => {
        for (const record of records) posted.push(await post(writer, record));
      },
    });
    await eventually(caughtUp).finally(() => consumer.close());
    return posted;
  };

  const reached = inspectRedisClaims(keys);
  t.after(() => reached.close());

  return {
    gateway,
    metrics,
    database,
    offsets,
    topic: place,
    forgetClaims: keys.forget,
    expireClaim: (txnId: string) => reached.expire(txnId),
    appended,
    catchUp,
  };
}

async function post(writer: Database, record: UndecodedRecord): Promise<Accepted> {
  const decoded = decodeAccepted(record);
  const settledAt = new Date();
  switch (decoded.outcome) {
    case 'payment': {
      const settlement = { result: { state: 'succeeded' } as const, settledAt };
      await openPostgresLedger(writer).post([{ ...decoded, settlement }]);
      return decoded.payment;
    }
    case 'follow-up':
      await openPostgresFollowUps(writer).post({ ...decoded, settledAt });
      return decoded.followUp;
    case 'refused':
      throw new Error(decoded.detail);
  }
}

/** An order for a payment, with a budget of its own. */
export function anOrder(payment: AcceptedPayment = aPayment()): Order {
  return orderOf(payment);
}

/** Another payment, the record of which goes to the same partition. */
export function aPaymentBeside({ txnId }: AcceptedPayment): AcceptedPayment {
  const own = partitionOfKey(txnId, partitions);
  for (;;) {
    const other = aPayment();
    if (partitionOfKey(other.txnId, partitions) === own) return other;
  }
}

/** An order for a refund, with a budget of its own. */
export function aRefundOrder(refund: AcceptedFollowUp): Order {
  return orderOf(refund);
}

function orderOf(transaction: Transaction): Order {
  const traceparent = traceparentFrom(undefined);
  return { transaction, traceparent, budget: startBudget(2_200), requestId: 'test' };
}

/** A gateway of which a test looks at these things alone. */
export function partialGateway(known: Partial<Gateway>): Gateway {
  return {
    logger,
    offered: providerNames,
    budgetMs: 2_200,
    turns: openTurns(),
    ...known,
  } as unknown as Gateway;
}

/** The id of the API key that a partner who is admitted by its name has. */
export const apiKeyOf = (partner: string) => deriveId('test', partner, 'API key');

const unlimited: Rate = { perSecond: 1_000_000, burst: 1_000_000 };

/** An admission by a test's own answer about keys, without limits unless it names some. */
export function testAdmission(
  authenticate: Admission['authenticate'],
  rates: { partnerRate?: Rate; failureRate?: Rate; publicRate?: Rate } = {},
): Admission {
  return {
    authenticate,
    partnerRate: createRateLimiter(rates.partnerRate ?? unlimited),
    failureRate: createRateLimiter(rates.failureRate ?? unlimited),
    publicRate: createRateLimiter(rates.publicRate ?? unlimited),
  };
}

/**
 * Every key is that of the partner it names, which may send card numbers as `…-unchecked`, and in
 * its reference, its metadata's `kid` and its idempotency keys as `…-exempt`. It is for everything,
 * or for what is named behind a dot: `acme.read`.
 */
export const admitByName = testAdmission(async (key) => {
  const [partner = '', scope = 'full'] = key.split('.');
  return {
    outcome: 'authenticated',
    partnerId: partner as PartnerId,
    cardNumbersIn: partner.endsWith('-unchecked')
      ? cardNumbersEverywhere
      : partner.endsWith('-exempt')
        ? ['reference', 'metadata.kid', 'idempotency-key']
        : [],
    scope: scope as KeyScope,
    keyId: apiKeyOf(partner),
    apiVersion: currentApiVersion,
    expiresAtMs: Infinity,
  };
});
