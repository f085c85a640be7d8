import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentAccepted, encodePaymentEvent } from '@triplock/contracts';
import { createLogger } from '@triplock/runtime';
import {
  aPayment,
  createTestDatabase,
  createTestSubscription,
  createTestTopic,
  eventually,
  freePort,
  patientAppends,
  startService,
} from '@triplock/testing';
import { succeededEvent } from '@triplock/testing/test';
import { openGroupCommit } from '@triplock/transport';
import type { AuditResult } from './audit.ts';
import { ownersOf } from './test/hops.ts';
import { wholeSystem } from './test/whole-system.ts';

/** An auditor process on stores of its own. */
async function anAuditor(context: TestContext) {
  const store = await createTestDatabase(context);
  const pubsub = await createTestSubscription(context);
  const { brokers, topic } = await createTestTopic(context, { partitions: 3 });
  const deadLetters = await createTestTopic(context);
  const auditor = startService(context, new URL('main.ts', import.meta.url), {
    TRIPLOCK_MODE: 'test',
    ADMIN_PORT: String(await freePort()),
    DATABASE_URL: store.url('triplock_auditor'),
    CLAIMS: 'postgres',
    CLAIMS_DATABASE_URL: store.url('triplock_auditor'),
    KAFKA_BROKERS: brokers.join(','),
    ACCEPTED_TOPIC: topic,
    DEAD_LETTER_TOPIC: deadLetters.topic,
    // Nobody commits for this group, so the auditor's own progress stands for it.
    LEDGER_GROUP: 'auditor',
    PUBSUB_PROJECT_ID: pubsub.projectId,
    PUBSUB_EMULATOR_HOST: pubsub.emulatorHost,
    EVENTS_SUBSCRIPTION: pubsub.subscription,
  });
  await auditor.ready();
  return {
    auditor,
    audit: async (query = '') =>
      (await (await auditor.admin(`/audit${query}`, 'POST')).json()) as AuditResult,
    topic: { brokers, topic },
    pubsub,
    system: wholeSystem(ownersOf(store)),
  };
}

test('an auditor sees a payment through Kafka and Pub/Sub and says when all is settled', async (context) => {
  const { auditor, audit, topic, pubsub, system } = await anAuditor(context);
  const log = openGroupCommit({
    ...topic,
    clientId: 'test',
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
    limits: patientAppends,
  });
  const payment = aPayment();
  try {
    await log.append(encodePaymentAccepted(payment, ''));
    await log.append(encodePaymentAccepted(payment, ''));
  } finally {
    await log.close();
  }
  await eventually(async () => (await audit()).counts.accepted === 1);
  const early = await audit();
  assert.deepEqual([early.ok, early.settledDown], [true, false]);
  assert.deepEqual((await audit('?final=true')).drift[0], {
    check: 'accepted-unaccounted',
    ids: [payment.txnId],
  });

  await system.post(payment);
  const event = succeededEvent(payment);
  const { payload, attributes } = encodePaymentEvent(event);
  const message = { data: Buffer.from(payload), attributes: { ...attributes('') } };
  await pubsub.client.topic(pubsub.topic).publishMessage(message);
  await system.mark(event.event_id);
  await system.consumeAll(event);
  await system.deliver(event.event_id);
  const settled = await eventually(async () => {
    const result = await audit();
    return result.settledDown && result;
  });
  assert.equal(settled.ok, true);
  assert.partialDeepStrictEqual(settled.counts, { accepted: 1, ledger: 1, published: 1 });

  assert.equal((await auditor.terminate()).exitCode, 0);
});
