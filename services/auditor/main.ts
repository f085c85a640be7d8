import { openClaimWalk } from '@triplock/claim-stores';
import { readEvents } from '@triplock/consumer';
import type { CopyLedger } from '@triplock/ledger';
import { openLedgerCopy as openCopyOf } from '@triplock/ledgers';
import {
  openDatabase,
  readDurability,
  type Database,
  type DatabaseOptions,
  type Queryable,
} from '@triplock/postgres';
import { openProviderJournals } from '@triplock/providers';
import { runLoop, runService, type Service } from '@triplock/runtime';
import {
  kafkaOf,
  meterThrottles,
  openLogBounds,
  openPassedRecords,
  openTopicOffsets,
  openUnreadRecords,
  readTopicRetention,
  requireReadable,
  runConsumer,
  type BrokerConnection,
  type RecordConsumer,
  type TopicLog,
} from '@triplock/transport';
import type { Auditor } from './audit.ts';
import { auditRoute } from './audit-route.ts';
import { readConfig, type Config } from './config.ts';
import { recordAcceptedBatch, recordDeadLetterBatch, recordSkipped } from './kafka-records.ts';
import { watchRetention } from './kafka-retention.ts';
import type { LostRecords } from './lost-records.ts';
import { auditorMetrics, type AuditorMetrics } from './metrics.ts';
import { openJournalCopy } from './provider-journal.ts';
import { countPublished } from './published.ts';
import { openAuditRuns, scheduledAudit } from './scheduled-audit.ts';
import { auditor } from './service.ts';
import { usualSlices } from './slices.ts';
import { compareClaims } from './unaccounted-claims.ts';
import { readUnread } from './unread-records.ts';

// A window may be large, and a full audit adds up whole tables.
const auditStatementTimeoutMs = 300_000;
const retentionEveryMs = 15_000;
const unreadEveryMs = 5_000;
// An audit waits this much longer for what was accepted just before it.
const gatherMs = 100;
// How old the copy of a ledger may be for whoever reads it between two audits.
const copyEveryMs = 2_000;

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

  const onThrottled = meterThrottles(service.metrics);
  const kafka = kafkaOf(config, { clientId: config.INSTANCE_NAME, logger, onThrottled });
  const log = openLogBounds({ ...kafka, topic: config.ACCEPTED_TOPIC });
  service.onClose('bounds of the accepted topic', () => log.close());
  const lost = { database, log, logger };
  const accepted = await consumeTopics(config, service, { kafka, lost, metrics });

  const auditDatabase = openFor(config, service, {
    connectionsMax: 2,
    statementTimeoutMs: auditStatementTimeoutMs,
    tune: lookUpMuch,
  });
  const auditor: Auditor = {
    database: auditDatabase,
    slices: usualSlices,
    copyLedger: await openLedgerCopy(config, service),
    lag: {
      worker: offsetsOf(config.ACCEPTED_TOPIC, config.LEDGER_GROUP),
      accepted: offsetsOf(config.ACCEPTED_TOPIC, config.AUDITOR_GROUP),
      deadLetters: offsetsOf(config.DEAD_LETTER_TOPIC, deadLetterGroupOf(config)),
    },
    journal: openJournalCopy({
      database: auditDatabase,
      journals: await openProviderJournals(config, {
        timeoutMs: config.PROVIDER_TIMEOUT_MS,
        requestsPerSecondMax: config.PROVIDER_READS_PER_SECOND,
      }),
      logger,
    }),
    lost,
    customerOverdueMs: config.AUDIT_OVERDUE_CUSTOMER_MS,
    metrics,
    logger,
  };
  const pass = scheduledAudit(auditor, {
    runs: openAuditRuns(database, config.AUDIT_EVERY_MS),
    overdueMs: config.AUDIT_OVERDUE_MS,
  });
  const loop = runLoop(pass, { name: 'audit', idleMs: config.AUDIT_EVERY_MS, logger });
  // An audit only reads, and may take long: a shutdown ends it without waiting for it.
  service.onClose('audit loop', async () => void loop.stop());

  runClaimComparison(config, service, { database, log, auditor });

  watchKafka(config, service, { kafka, metrics });
  await service.serveAdmin({
    readiness: {
      postgres: () => database.ping(),
      pubsub: () => events.ping(),
      kafka: () => accepted.ping(),
    },
    routes: { 'POST /audit': auditRoute(auditor) },
  });

  function offsetsOf(topic: string, groupId: string) {
    const offsets = openTopicOffsets({ ...kafka, topic, groupId });
    service.onClose(`offsets of ${groupId}`, () => offsets.close());
    return offsets;
  }
});

/** Compares the claims with the ledger for as long as the service runs. */
function runClaimComparison(
  config: Config,
  { logger, onClose }: Service,
  { database, log, auditor }: { database: Database; log: TopicLog; auditor: Auditor },
): void {
  const { pass, close } = compareClaims({
    database,
    log,
    logger,
    copyLedger: auditor.copyLedger,
    worker: auditor.lag.worker,
    openWalk: () => openClaimWalk(config, logger),
    perSecond: config.CLAIMS_COMPARED_PER_SECOND,
  });
  onClose('claims', close);
  const loop = runLoop(pass, { name: 'compare claims', idleMs: 1_000, logger });
  onClose('comparing claims', () => loop.stop());
}

/**
 * Has a session look up the rows of a window one by one in the other tables, and not read those
 * whole: what is new is in memory, and the planner's usual price is that of a disk.
 */
function lookUpMuch(session: Queryable): Promise<unknown> {
  return session.query(`SELECT set_config('random_page_cost', '1.1', false)`);
}

/** Records what was accepted and what was set aside; gives the consumer of the first. */
async function consumeTopics(
  config: Config,
  { onClose }: Service,
  { kafka, lost, metrics }: { kafka: BrokerConnection; lost: LostRecords; metrics: AuditorMetrics },
): Promise<RecordConsumer> {
  const { ACCEPTED_TOPIC: topic, DEAD_LETTER_TOPIC: deadLetterTopic } = config;
  for (const each of [topic, deadLetterTopic]) {
    await requireReadable({ ...kafka, topic: each, mode: config.TRIPLOCK_MODE });
  }
  const groupId = config.AUDITOR_GROUP;
  const accepted = runConsumer({
    ...kafka,
    topic,
    groupId,
    gatherMs,
    handle: recordAcceptedBatch(lost, metrics),
    onSkipped: recordSkipped(lost),
    onJoined: () => metrics.joins.count('accepted'),
  });
  onClose('accepted consumer', () => accepted.close());
  // The one that reads without a group, which this service has no right to make.
  const passed = openPassedRecords({ ...kafka, driver: 'platformatic', topic, groupId });
  onClose('passed records', () => passed.close());
  const unread = readUnread({
    ...lost,
    accepted: passed,
    record: recordAcceptedBatch(lost, metrics),
  });
  const loop = runLoop(unread, { name: 'read unread', idleMs: unreadEveryMs, logger: lost.logger });
  onClose('reading unread', () => loop.stop());
  const deadLetters = runConsumer({
    ...kafka,
    topic: deadLetterTopic,
    groupId: deadLetterGroupOf(config),
    handle: recordDeadLetterBatch(lost.database, metrics),
    onJoined: () => metrics.joins.count('dead_letter'),
  });
  onClose('dead letter consumer', () => deadLetters.close());
  return accepted;
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

/** Opens the database; each session of it is durable, and `tune` is run on it. */
function openFor(
  config: Config,
  service: Service,
  {
    tune,
    ...limits
  }: Pick<DatabaseOptions, 'connectionsMax' | 'statementTimeoutMs'> & {
    tune?: (session: Queryable) => Promise<unknown>;
  },
) {
  return openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    onConnect: async (session) => {
      // Records and events are passed after the commit: evidence that vanished never comes again.
      await readDurability(session);
      await tune?.(session);
    },
    onIdleError: (err) => service.logger.warn({ err }, 'an idle database connection broke'),
    ...limits,
  });
}

/**
 * Keeps a copy of a ledger in another store in PostgreSQL, where the checks and other readers look
 * for it, for as long as the service runs. Nothing is copied where the ledger is there already.
 */
async function openLedgerCopy(
  config: Config,
  { logger, onClose }: Service,
): Promise<CopyLedger | undefined> {
  const copied = await openCopyOf(config, () => {
    const copyTo = openDatabase({
      url: config.LEDGER_COPY_URL!,
      applicationName: config.INSTANCE_NAME,
      connectionsMax: 2,
      onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
    });
    onClose('ledger copy', () => copyTo.close());
    return copyTo;
  });
  if (copied === undefined) return undefined;
  onClose(config.LEDGER_STORE, () => copied.close());
  // A slice at a time, so that a shutdown need not wait for a backlog. It rests after the last one:
  // what came meanwhile can wait for a second.
  const pass = async () => {
    const { moreFollows } = await copied.copy({ counting: false, slicesMax: 1 });
    return moreFollows ? 1 : 0;
  };
  const loop = runLoop(pass, { name: 'copy ledger', idleMs: copyEveryMs, logger });
  onClose('copying', () => loop.stop());
  return copied.copy;
}
