import { openLedgerStore } from '@triplock/ledgers';
import { openDatabase } from '@triplock/postgres';
import { runService } from '@triplock/runtime';
import {
  openDeadLetters,
  readTopicRetention,
  requireDeadLetterCapacity,
  requireReadable,
  runConsumer,
} from '@triplock/transport';
import { checkRetention } from './check-retention.ts';
import { readConfig } from './config.ts';
import { gatherPostings } from './gather-postings.ts';
import { workerMetrics } from './metrics.ts';
import { openCharging } from './open-charging.ts';
import { openWebhooks } from './open-webhooks.ts';
import { paymentsHandler } from './payments-consumer.ts';
import { createPostBatch } from './post-batch.ts';

await runService('ledger-worker', readConfig, async (config, service) => {
  const { logger, crashPoints } = service;
  const metrics = workerMetrics(service.metrics);

  const book = await openLedgerStore(config, () =>
    openDatabase({
      url: config.DATABASE_URL,
      applicationName: config.INSTANCE_NAME,
      onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
    }),
  );
  const { ledger } = book;
  service.onClose('ledger', () => ledger.close());

  const kafka = { brokers: config.KAFKA_BROKERS, clientId: config.INSTANCE_NAME, logger };
  const topic = config.ACCEPTED_TOPIC;
  await requireReadable({ ...kafka, topic });
  checkRetention(topic, await readTopicRetention({ ...kafka, topic }), logger);
  await requireDeadLetterCapacity({ ...kafka, topic: config.DEAD_LETTER_TOPIC });
  const deadLetters = openDeadLetters({ ...kafka, topic: config.DEAD_LETTER_TOPIC });
  service.onClose('dead letters', () => deadLetters.close());

  const charging = openCharging(config, { ...service, ...book, metrics });
  service.onClose('charges', () => charging.desk.close());
  service.onClose('resolver', () => charging.resolver.stop());

  const postRowsMax = config.POST_ROWS_MAX;
  const post = gatherPostings(createPostBatch({ ledger, metrics }), {
    rowsMax: postRowsMax,
    statementsMax: config.POST_STATEMENTS_MAX,
  });
  const consumer = runConsumer({
    ...kafka,
    topic,
    groupId: config.LEDGER_GROUP,
    ...paymentsHandler({
      ...{ post, postRowsMax, ledger, deadLetters },
      ...{ desk: charging.desk, refunds: book.refunds, metrics, crashPoints, logger },
    }),
  });
  service.onClose('consumer', () => consumer.close());
  const { wakeDue, refunds } = book;
  await openWebhooks(config, { ...service, ...charging, metrics, wakeDue, refunds });
  // First of all: calls under way end, and what has not begun is left for whoever comes next.
  service.onClose('provider', async () => charging.provider.close());

  await service.serveAdmin({
    readiness: {
      kafka: async () => {
        await consumer.ping();
        await deadLetters.ping();
      },
      [book.store]: () => ledger.ping(),
    },
  });
});
