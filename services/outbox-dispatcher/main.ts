import { randomUUID } from 'node:crypto';
import { openLedgerStore } from '@triplock/ledgers';
import { openDatabase } from '@triplock/postgres';
import { runLoop, runService, type Pass } from '@triplock/runtime';
import { kafkaOf, openEventArchive, openPublisher, requireDurable } from '@triplock/transport';
import { readConfig } from './config.ts';
import { dispatcherMetrics } from './metrics.ts';
import { runPublishing } from './publish-events.ts';
import { outboxDispatcher } from './service.ts';
import { holdLeases, measureBacklog, reapOutbox } from './upkeep.ts';

// Well below the lease, so that whatever is sent of a bucket under a lease is sent before it ends.
const publishLimitMs = 3_000;
const backlogEveryMs = 5_000;
const reapEveryMs = 60_000;
const hourMs = 3_600_000;

await runService(outboxDispatcher, readConfig, async (config, service) => {
  const { logger, crashPoints } = service;
  // New with every boot: a predecessor of the same name that is only paused, and not dead, must
  // not share leases and epochs with this one.
  const owner = `${config.INSTANCE_NAME}:${randomUUID()}`;

  const { store, outbox } = await openLedgerStore(config, () =>
    openDatabase({
      url: config.DATABASE_URL,
      applicationName: config.INSTANCE_NAME,
      // Not asked how lasting its commits are: a mark that vanishes is a second publish, which the
      // inboxes know, and the events themselves are the worker's commits.
      onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
    }),
  );
  service.onClose('outbox', () => outbox.close());
  const metrics = dispatcherMetrics(service.metrics);

  const publisher = openPublisher({
    projectId: config.PUBSUB_PROJECT_ID,
    emulatorHost: config.PUBSUB_EMULATOR_HOST,
    topic: config.EVENTS_TOPIC,
    publishLimitMs,
  });
  service.onClose('publisher', () => publisher.close());

  const kafka = kafkaOf(config, { clientId: config.INSTANCE_NAME, logger });
  const toldTopic = { ...kafka, topic: config.TOLD_TOPIC };
  await requireDurable({ ...toldTopic, mode: config.TRIPLOCK_MODE });
  const archive = openEventArchive(toldTopic);
  service.onClose('archive', () => archive.close());

  const publishing = runPublishing(
    {
      outbox,
      publisher,
      archive,
      holdLeases: holdLeases(outbox, { owner, leaseMs: config.LEASE_MS }),
      orderingKeys: config.ORDERING_KEYS,
      rowsMax: config.TAKE_ROWS_MAX,
      publishLimitMs,
      metrics,
      crashPoints,
      logger,
    },
    owner,
  );
  service.onClose('publishing', () => publishing.stop());
  runPass('backlog', backlogEveryMs, measureBacklog(outbox, metrics));
  const keepMs = config.OUTBOX_RETENTION_HOURS * hourMs;
  runPass('reap outbox', reapEveryMs, reapOutbox(outbox, metrics, keepMs));

  await service.serveAdmin({
    readiness: {
      [store]: () => outbox.ping(),
      pubsub: () => publisher.ping(),
      kafka: archive.ping,
    },
  });

  function runPass(name: string, idleMs: number, pass: Pass): void {
    const loop = runLoop(pass, { name, idleMs, logger });
    service.onClose(name, () => loop.stop());
  }
});
