import { readEvents } from '@triplock/consumer';
import { openDatabase } from '@triplock/postgres';
import { openStripeJournal, type ProviderJournal } from '@triplock/provider';
import { runLoop, runService, type Service } from '@triplock/runtime';
import {
  openLogBounds,
  openTopicOffsets,
  openUnreadRecords,
  readTopicRetention,
  requireReadable,
  runConsumer,
  type BrokerConnection,
  type RecordConsumer,
} from '@triplock/transport';
import { auditRoute, type Auditor } from './audit.ts';
import { readConfig, type Config } from './config.ts';
import { recordAcceptedBatch, recordDeadLetterBatch } from './kafka-records.ts';
import { watchRetention } from './kafka-retention.ts';
import { openLedgerCopy } from './ledger-copy.ts';
import type { LostRecords } from './lost-records.ts';
import { auditorMetrics, type AuditorMetrics } from './metrics.ts';
import { openJournalCopy } from './provider-journal.ts';
import { countPublished } from './published.ts';
import { openAuditRuns, scheduledAudit } from './scheduled-audit.ts';
import { auditor } from './service.ts';

// The checks of an audit read whole tables.
const auditStatementTimeoutMs = 300_000;
const retentionEveryMs = 15_000;
// An audit waits this much longer for what was accepted just before it.
const gatherMs = 100;

await runService(auditor, readConfig, async (config, service) => {
  const { logger } = service;
  const metrics = auditorMetrics(service.metrics);
  const database = openFor(config, service, { connectionsMax: 8 });
  service.onClose('database', () => database.close());

  const events = readEvents(service, config, {
    name: 'auditor',
    shortName: 'auditor',
    database,
    receive: countPublished(database, metrics, logger),
  });

  const kafka = { brokers: config.KAFKA_BROKERS, clientId: config.INSTANCE_NAME, logger };
  const log = openLogBounds({ ...kafka, topic: config.ACCEPTED_TOPIC });
  service.onClose('bounds of the accepted topic', () => log.close());
  const lost = { database, log, logger };
  const accepted = await consumeTopics(config, service, { kafka, lost, metrics });

  const auditDatabase = openFor(config, service, {
    connectionsMax: 2,
    statementTimeoutMs: auditStatementTimeoutMs,
  });
  const auditor: Auditor = {
    database: auditDatabase,
    copyLedger: await openLedgerCopy(config, service),
    lag: {
      worker: offsetsOf(config.ACCEPTED_TOPIC, config.LEDGER_GROUP),
      accepted: offsetsOf(config.ACCEPTED_TOPIC, config.AUDITOR_GROUP),
      deadLetters: offsetsOf(config.DEAD_LETTER_TOPIC, deadLetterGroupOf(config)),
    },
    journal: openJournalCopy({ database: auditDatabase, journal: journalOf(config), logger }),
    lost,
    metrics,
    logger,
  };
  const pass = scheduledAudit(auditor, {
    runs: openAuditRuns(database, config.AUDIT_EVERY_MS),
    overdueMs: overdueMsOf(config),
  });
  const loop = runLoop(pass, { name: 'audit', idleMs: config.AUDIT_EVERY_MS, logger });
  // An audit only reads, and may take long: a shutdown ends it without waiting for it.
  service.onClose('audit loop', async () => void loop.stop());

  watchKafka(config, service, { kafka, metrics });
  await service.serveAdmin({
    readiness: {
      postgres: () => database.ping(),
      pubsub: () => events.ping(),
      kafka: () => accepted.ping(),
    },
    routes: { 'GET /audit': auditRoute(auditor) },
  });

  function offsetsOf(topic: string, groupId: string) {
    const offsets = openTopicOffsets({ ...kafka, topic, groupId });
    service.onClose(`offsets of ${groupId}`, () => offsets.close());
    return offsets;
  }
});

function overdueMsOf(config: Config) {
  return {
    system: config.AUDIT_OVERDUE_MS,
    outsider: config.AUDIT_OVERDUE_OUTSIDE_MS,
    bank: config.AUDIT_OVERDUE_AT_BANK_MS,
  };
}

/** Records what was accepted and what was set aside; gives the consumer of the first. */
async function consumeTopics(
  config: Config,
  { onClose }: Service,
  { kafka, lost, metrics }: { kafka: BrokerConnection; lost: LostRecords; metrics: AuditorMetrics },
): Promise<RecordConsumer> {
  const { ACCEPTED_TOPIC: topic, DEAD_LETTER_TOPIC: deadLetterTopic } = config;
  await requireReadable({ ...kafka, topic });
  await requireReadable({ ...kafka, topic: deadLetterTopic });
  const accepted = runConsumer({
    ...kafka,
    topic,
    groupId: config.AUDITOR_GROUP,
    gatherMs,
    handle: recordAcceptedBatch(lost, metrics),
  });
  onClose('accepted consumer', () => accepted.close());
  const deadLetters = runConsumer({
    ...kafka,
    topic: deadLetterTopic,
    groupId: deadLetterGroupOf(config),
    handle: recordDeadLetterBatch(lost.database, metrics),
  });
  onClose('dead letter consumer', () => deadLetters.close());
  return accepted;
}

function journalOf(config: Config): ProviderJournal | undefined {
  const { STRIPE_API_KEY: apiKey, STRIPE_API_URL: apiUrl } = config;
  if (apiKey === undefined) return undefined;
  return openStripeJournal({
    apiKey,
    ...(apiUrl === undefined ? {} : { apiUrl }),
    timeoutMs: config.PROVIDER_TIMEOUT_MS,
    requestsPerSecondMax: config.PROVIDER_READS_PER_SECOND,
  });
}

function deadLetterGroupOf({ AUDITOR_GROUP }: Config): string {
  return `${AUDITOR_GROUP}-dead-letters`;
}

/** Holds the worker's lag against Kafka's retention from now on. */
function watchKafka(
  config: Config,
  { logger, onClose }: Service,
  { kafka, metrics }: { kafka: BrokerConnection; metrics: AuditorMetrics },
): void {
  const { ACCEPTED_TOPIC: topic, LEDGER_GROUP: groupId } = config;
  const unread = openUnreadRecords({ ...kafka, topic, groupId });
  onClose('unread records', () => unread.close());
  const readRetention = () => readTopicRetention({ ...kafka, topic });
  const pass = watchRetention({ unread, readRetention, metrics, logger });
  const loop = runLoop(pass, { name: 'watch retention', idleMs: retentionEveryMs, logger });
  onClose('retention', () => loop.stop());
}

function openFor(
  config: Config,
  service: Service,
  limits: { connectionsMax: number; statementTimeoutMs?: number },
) {
  return openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    onIdleError: (err) => service.logger.warn({ err }, 'an idle database connection broke'),
    ...limits,
  });
}
