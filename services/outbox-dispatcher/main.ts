import { randomUUID } from 'node:crypto';
import { openLedgerStore } from '@triplock/ledgers';
import { openDatabase } from '@triplock/postgres';
import { runLoop, runService } from '@triplock/runtime';
import { openPublisher } from '@triplock/transport';
import { readConfig } from './config.ts';
import { holdLeases } from './hold-leases.ts';
import { measureBacklog } from './measure-backlog.ts';
import { dispatcherMetrics } from './metrics.ts';
import { publishEvents } from './publish-events.ts';
import { startPublishing } from './publish-loop.ts';
import { reapOutbox } from './reap-outbox.ts';

// Well below the lease, so that whatever is sent of a bucket under a lease is sent before it ends.
const publishLimitMs = 3_000;
const backlogEveryMs = 5_000;
const reapEveryMs = 60_000;
const hourMs = 3_600_000;

await runService('outbox-dispatcher', readConfig, async (config, service) => {
  const { logger, crashPoints } = service;
  // New with every boot: a predecessor of the same name that is only paused, and not dead, must
  // not share leases and epochs with this one.
  const owner = `${config.INSTANCE_NAME}:${randomUUID()}`;

  const { store, outbox } = await openLedgerStore(config, () =>
    openDatabase({
      url: config.DATABASE_URL,
      applicationName: config.INSTANCE_NAME,
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

  const pass = publishEvents({
    outbox,
    publisher,
    metrics,
    crashPoints,
    logger,
    holdLeases: holdLeases(outbox, { owner, leaseMs: config.LEASE_MS }),
    rowsMax: config.TAKE_ROWS_MAX,
    publishLimitMs,
  });
  const loop = startPublishing(pass, { outbox, owner, logger });
  service.onClose('publishing', () => loop.stop());
  const backlog = runLoop(measureBacklog(outbox, metrics), {
    name: 'backlog',
    idleMs: backlogEveryMs,
    logger,
  });
  service.onClose('backlog', () => backlog.stop());
  const reap = reapOutbox(outbox, { metrics, keepMs: config.OUTBOX_RETENTION_HOURS * hourMs });
  const reaper = runLoop(reap, { name: 'reap outbox', idleMs: reapEveryMs, logger });
  service.onClose('reaper', () => reaper.stop());

  await service.serveAdmin({
    readiness: { [store]: () => outbox.ping(), pubsub: () => publisher.ping() },
  });
});
