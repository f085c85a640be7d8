import type { TestContext } from 'node:test';
import { openRedisClaims } from '@triplock/claims';
import { decodeAccepted, type UndecodedRecord } from '@triplock/contracts';
import { openPostgresLedger, openPostgresRefunds } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import { createCrashPoints, createLogger, traceparentFrom } from '@triplock/runtime';
import { inspectClaims } from '@triplock/claims-inspector';
import {
  aPayment,
  createTestDatabase,
  createTestKeyspace,
  createTestTopic,
  eventually,
  testNamespace,
} from '@triplock/testing';
import { openGroupCommit, openTopicOffsets, runConsumer } from '@triplock/transport';
import type { Order } from '../accept/accept-transaction.ts';
import { recoverLosses } from '../accept/loss-recovery.ts';
import { startBudget } from '../http/time-budget.ts';
import { paymentForm, type AcceptedTransaction } from '../accept/transaction-form.ts';
import { watchProgress } from '../accept/watch-progress.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** The story's parts on real stores of one test's own, and hands to break them with. */
export async function openTestGateway(t: TestContext, times: { leaseMs?: number } = {}) {
  const partitions = 2;
  const [keys, database, place] = await Promise.all([
    createTestKeyspace(t),
    createTestDatabase(t),
    createTestTopic(t, { partitions }),
  ]);
  const claims = await openRedisClaims({ ...keys, ...times, logger });
  const kafka = { ...place, clientId: 'test', logger };
  const groupId = testNamespace('ledger-worker');
  const log = openGroupCommit(kafka);
  const offsets = openTopicOffsets({ ...kafka, groupId });
  const ledger = openPostgresLedger(database.open('triplock_gateway'));
  t.after(() => Promise.all([claims.close(), log.close(), offsets.close()]));

  const progress = watchProgress(offsets);
  const onCold = () => undefined;
  const recovery = recoverLosses({ claims, ledger, offsets, progress, logger, onCold });
  const crashPoints = createCrashPoints();
  const appended = async () => {
    const end = await offsets.end();
    return [...end.values()].reduce((sum, offset) => sum + offset, 0n);
  };
  const caughtUp = async () => {
    const [end, committed] = await Promise.all([offsets.end(), offsets.committed()]);
    return [...end].every(([partition, offset]) => (committed.get(partition) ?? 0n) >= offset);
  };

  /** Posts everything in the topic, as the ledger's worker does, and gives the records it met. */
  const catchUp = async (): Promise<AcceptedTransaction[]> => {
    const posted: AcceptedTransaction[] = [];
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

  const reached = inspectClaims({ ...keys, claims: 'redis', redis: keys.url, postgres: '' });
  t.after(() => reached.close());
  const expireClaim = (txnId: string) => reached.expire(txnId);

  const refunds = openPostgresRefunds(database.open('triplock_gateway'));
  const form = paymentForm(ledger);
  const parts = { claims, ledger, refunds, form, recovery, log, crashPoints, logger };
  return { parts, database, offsets, forgetClaims: keys.forget, expireClaim, appended, catchUp };
}

async function post(writer: Database, record: UndecodedRecord): Promise<AcceptedTransaction> {
  const decoded = decodeAccepted(record);
  const settledAt = new Date();
  switch (decoded.outcome) {
    case 'payment': {
      const settlement = { result: { state: 'succeeded' } as const, settledAt };
      await openPostgresLedger(writer).post([{ ...decoded, settlement }]);
      return decoded.payment;
    }
    case 'refund':
      await openPostgresRefunds(writer).post({ ...decoded, settledAt });
      return decoded.refund;
    case 'refused':
      throw new Error(decoded.detail);
  }
}

/** An order for a payment, with a budget of its own. */
export function anOrder(payment: AcceptedPayment = aPayment()): Order<AcceptedPayment> {
  return orderOf(payment);
}

/** An order for a payment or refund, with a budget of its own. */
export function orderOf<Accepted extends AcceptedTransaction>(
  transaction: Accepted,
): Order<Accepted> {
  return { transaction, traceparent: traceparentFrom(undefined), budget: startBudget(2_200) };
}
