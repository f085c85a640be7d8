import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { openRedisClaims } from '@triplock/claims';
import { decodeAccepted } from '@triplock/contracts';
import { openPostgresLedger } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';
import { createCrashPoints, createLogger, traceparentFrom } from '@triplock/runtime';
import {
  aPayment,
  createTestDatabase,
  createTestKeyspace,
  createTestTopic,
  eventually,
  testNamespace,
} from '@triplock/testing';
import { openGroupCommit, openTopicOffsets, runConsumer } from '@triplock/transport';
import type { PaymentOrder } from './accept-payment.ts';
import { recoverMemory } from './recover-memory.ts';
import { startBudget } from './time-budget.ts';
import { watchProgress } from './watch-progress.ts';

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
  const memory = recoverMemory({ claims, ledger, offsets, progress, logger, onCold });
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
  const catchUp = async (): Promise<AcceptedPayment[]> => {
    const posted: AcceptedPayment[] = [];
    const writer = openPostgresLedger(database.open('triplock_ledger'));
    const consumer = runConsumer({
      ...kafka,
      groupId,
      handle: async ({ records }) => {
        const batch = records.map((record) => {
          const decoded = decodeAccepted(record);
          assert.ok(decoded.outcome === 'payment', decoded.outcome);
          const settlement = { result: { state: 'succeeded' } as const, settledAt: new Date() };
          return { ...decoded, settlement };
        });
        await writer.post(batch);
        posted.push(...batch.map(({ payment }) => payment));
      },
    });
    await eventually(caughtUp).finally(() => consumer.close());
    return posted;
  };

  const parts = { claims, ledger, memory, log, crashPoints, logger };
  return { parts, offsets, forgetClaims: keys.forget, appended, catchUp };
}

/** An order for a payment, with a budget of its own. */
export function anOrder(payment: AcceptedPayment = aPayment()): PaymentOrder {
  return { payment, traceparent: traceparentFrom(undefined), budget: startBudget(2_200) };
}
