import type { LedgerPorts, Recovery } from '@triplock/ledger';
import { openLedgerStore } from '@triplock/ledgers';
import { openDatabase, readDurability } from '@triplock/postgres';
import { backoffMs, runLoop, runService, type Loop, type Service } from '@triplock/runtime';
import {
  kafkaOf,
  meterThrottles,
  openDeadLetters,
  openEventArchiveReader,
  openPassedRecords,
  readTopicRetention,
  requireDeadLetterCapacity,
  requireDurable,
  requireReadable,
  runConsumer,
  type BrokerConnection,
} from '@triplock/transport';
import { readConfig, type Config } from './config.ts';
import { openAhead, runAhead } from './batch/ahead.ts';
import { checkRetention, paymentsHandler, reportRecords } from './batch/consumer.ts';
import { watchContinuity } from './continuity.ts';
import { durabilityPass, requireDurableLedger } from './batch/durability.ts';
import { workerMetrics, type WorkerMetrics } from './metrics.ts';
import { openPostAgain } from './batch/post-again.ts';
import { openPosting, watchPosting } from './batch/posting.ts';
import { disputesPass } from './recalling.ts';
import { runResolvers } from './resolver.ts';
import { ledgerWorker } from './service.ts';
import { openReports } from './provider-reports.ts';
import { openProviders } from './providers.ts';
import type { Worker, WorkerLimits } from './worker.ts';

// A statement and its commit cost more than the few payments that come within this time.
const postApartMs = 30;
// So long a crowd of one partner's cards holds back their partition.
const slotWaitMs = 5_000;

await runService(ledgerWorker, readConfig, async (config, service) => {
  const { logger, crashPoints } = service;
  const metrics = workerMetrics(service.metrics);

  const store = await openLedger(config, service, metrics);
  const { ledger, followUps, takeDue, wakeDue } = store;

  const onThrottled = meterThrottles(service.metrics);
  const kafka = kafkaOf(config, { clientId: config.INSTANCE_NAME, logger, onThrottled });
  const topic = config.ACCEPTED_TOPIC;
  const mode = config.TRIPLOCK_MODE;
  await requireReadable({ ...kafka, topic, mode });
  checkRetention({ ...kafka, topic }, await readTopicRetention({ ...kafka, topic }), logger);
  const deadLetterTopic = { ...kafka, topic: config.DEAD_LETTER_TOPIC };
  await requireDeadLetterCapacity({ ...deadLetterTopic, mode });
  // Until it is redriven it is the only record of what was accepted.
  await requireDurable({ ...deadLetterTopic, mode });
  const deadLetters = openDeadLetters(deadLetterTopic);
  service.onClose('dead letters', () => deadLetters.close());

  const providers = await openProviders(config, {
    timeoutMs: config.PROVIDER_TIMEOUT_MS,
    slotsMax: config.CHARGES_MAX,
    metrics,
    logger,
    // oxlint-disable-next-line no-use-before-define -- first called with it
    onClosed: (name) => resolvers.wake(name),
  });
  const { POST_ROWS_MAX: rowsMax, POST_STATEMENTS_MAX: statementsMax } = config;
  const postLimits = { rowsMax, statementsMax, apartMs: postApartMs };
  const { post, requireWritable } = watchPosting(openPosting({ ledger, metrics }, postLimits));
  const worker: Worker = {
    ledger,
    followUps,
    takeDue,
    wakeDue,
    providers,
    deadLetters,
    actionKeys: config.ACTION_KEYS,
    post,
    inFlight: new Set(),
    limits: limitsOf(config),
    metrics,
    crashPoints,
    logger,
  };
  service.onClose('charges', () => Promise.all(worker.inFlight));

  const resolvers = runResolvers(worker);
  service.onClose('resolver', () => resolvers.stop());

  const requireWhole = watchServer(worker, store, { config, kafka, service });

  const ahead = openAhead(worker, aheadOf(kafka, topic), {
    report: (batch, outcomes) => {
      metrics.ahead.inc(batch.records.length);
      reportRecords(worker, batch, outcomes);
    },
    // oxlint-disable-next-line no-use-before-define -- first called with it
    onBehind: () => readingAhead.wake(),
    server: store.outbox.server,
  });
  const readingAhead = runAhead(ahead, logger);
  service.onClose('reading ahead', () => readingAhead.stop());

  const groupId = config.LEDGER_GROUP;
  const consumer = runConsumer({ ...kafka, topic, groupId, ...paymentsHandler(worker, ahead) });
  service.onClose('consumer', () => consumer.close());

  await openReports(worker, resolvers, { config, ...service });
  // First of all: calls under way end, and what has not begun is left for whoever comes next.
  service.onClose('providers', async () => {
    for (const { provider } of providers.all) provider.close();
  });

  await service.serveAdmin({
    readiness: {
      kafka: async () => {
        await consumer.ping();
        await deadLetters.ping();
      },
      [store.store]: async () => {
        await (store.readDurability ?? ledger.ping)();
        requireWhole();
        requireWritable();
      },
    },
  });
});

/** By the library that reads without a group, which this service has no right to make. */
function aheadOf(kafka: BrokerConnection, topic: string) {
  return { ...kafka, clientId: `${kafka.clientId}-ahead`, driver: 'platformatic', topic } as const;
}

function limitsOf(config: Config): WorkerLimits {
  return {
    postRowsMax: config.POST_ROWS_MAX,
    slotWaitMs,
    handOverMs: config.HAND_OVER_MS,
    actionExpiresMs: config.ACTION_EXPIRES_MS,
  };
}

/** The ledger that the settings name; refused where it may lose what it acknowledged. */
async function openLedger(config: Config, service: Service, metrics: WorkerMetrics) {
  const { logger } = service;
  const store = await openLedgerStore(config, () =>
    openDatabase({
      url: config.DATABASE_URL,
      applicationName: config.INSTANCE_NAME,
      // Also when PostgreSQL comes after the boot, or the role changes: no commit may vanish.
      onConnect: readDurability,
      onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
    }),
  );
  service.onClose('ledger', () => store.ledger.close());
  if (store.readDurability === undefined) return store;
  const watch = { readDurability: store.readDurability, metrics, logger };
  const { TRIPLOCK_MODE: mode, ASYNCHRONOUS_STANDBYS: standbys } = config;
  await requireDurableLedger(watch, { mode, standbys });
  const loop = runLoop(durabilityPass(watch), { name: 'durability', idleMs: 10_000, logger });
  service.onClose('durability', () => loop.stop());
  return store;
}

/**
 * Looks whether the ledger has all that was told, as soon as this starts and whenever another
 * server has it; and once it was set back, that every dispute since then is noted again. Gives what
 * throws while the first is not known.
 */
function watchServer(
  worker: Worker,
  { continuity, recovery }: Pick<LedgerPorts, 'continuity' | 'recovery'>,
  parts: { config: Config; kafka: BrokerConnection; service: Service },
): () => void {
  if (continuity === undefined || recovery === undefined) return () => undefined;
  const { config, kafka, service } = parts;
  const { metrics, logger } = worker;
  const recall = recallDisputes(worker, recovery, service);
  // The one that reads without a group, which this service has no right to make.
  const reading = { ...kafka, driver: 'platformatic' } as const;
  const archive = openEventArchiveReader({ ...reading, topic: config.TOLD_TOPIC });
  const { ACCEPTED_TOPIC: topic, LEDGER_GROUP: groupId } = config;
  const accepted = openPassedRecords({ ...reading, topic, groupId });
  service.onClose('passed records', () => accepted.close());
  const watcher = watchContinuity({
    continuity,
    archive,
    accepted,
    postAgain: openPostAgain(worker, continuity),
    noteLost: recovery.noteLost,
    onServer: recall.begin,
    metrics,
    logger,
  });
  const loop = runLoop(watcher.pass, { name: 'continuity', idleMs: 1_000, logger });
  service.onClose('continuity', () => loop.stop());
  return watcher.requireWhole;
}

/**
 * While the ledger was set back, notes every dispute since then again. That is found on a server of
 * the ledger that was not known before, which is when this begins.
 */
function recallDisputes(
  worker: Worker,
  recovery: Recovery,
  { logger, onClose }: Service,
): { begin(): void } {
  let loop: Loop | undefined;
  const idleMs = (idleBefore: number) => backoffMs(idleBefore, { firstMs: 1_000, maxMs: 30_000 });
  const pass = disputesPass(worker, recovery, logger);
  const begin = () => {
    loop ??= runLoop(pass, { name: 'recall disputes', idleMs, logger });
    loop.wake();
  };
  onClose('recall disputes', async () => loop?.stop());
  return { begin };
}
