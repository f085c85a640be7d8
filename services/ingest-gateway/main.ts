import { openLedgerStore } from '@triplock/ledgers';
import {
  openPartners,
  openSettlements,
  openWebhookDeliveries,
  openWebhookEndpoints,
  targetPolicyOf,
} from '@triplock/partners';
import { openDatabase } from '@triplock/postgres';
import { explainListenError, runService, withDeadline } from '@triplock/runtime';
import { openGroupCommit, openTopicOffsets, requireDurable } from '@triplock/transport';
import { checkLedger } from './http/check-ledger.ts';
import { checkPostgres } from './http/check-postgres.ts';
import { readConfig } from './config.ts';
import { addGatewayRoutes } from './routes/gateway-routes.ts';
import { createHttpServer } from './http/http-server.ts';
import { measureAppends, measureClaims } from './http/measure-parts.ts';
import { measureRequests } from './http/measure-requests.ts';
import { gatewayMetrics } from './http/metrics.ts';
import { openAdmission } from './http/open-admission.ts';
import { openClaims } from './accept/claim-stores.ts';
import { recoverLosses } from './accept/loss-recovery.ts';
import { watchProgress } from './accept/watch-progress.ts';

// A request is answered within 3 s. Authenticating may take 0.5 s of them and letting go of a claim
// 0.2 s; the rest is for everything between.
const budgetMs = 2_200;

await runService('ingest-gateway', readConfig, async (config, service) => {
  const { logger, crashPoints } = service;
  const metrics = gatewayMetrics(service.metrics);

  const claims = measureClaims(await openClaims(config, service), metrics);

  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    connectTimeoutMs: budgetMs,
    statementTimeoutMs: budgetMs,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  service.onClose('database', () => database.close());
  const book = await openLedgerStore(config, () => database, { callLimitMs: budgetMs });
  const { ledger, refunds } = book;
  if (book.store !== 'postgres') service.onClose('ledger', () => ledger.close());
  const partners = openPartners(database);

  const kafka = { brokers: config.KAFKA_BROKERS, clientId: config.INSTANCE_NAME, logger };
  const topic = config.ACCEPTED_TOPIC;
  const otherwise = config.TRIPLOCK_MODE === 'production' ? 'refuse' : 'warn';
  await requireDurable({ ...kafka, topic, otherwise });
  const offsets = openTopicOffsets({ ...kafka, topic, groupId: config.LEDGER_GROUP });
  service.onClose('topic offsets', () => offsets.close());
  const log = openGroupCommit({ ...kafka, topic });
  service.onClose('kafka producer', () => log.close());

  const progress = watchProgress(offsets);
  const onCold = metrics.metCold;
  const recovery = recoverLosses({ claims, ledger, offsets, progress, logger, onCold });
  // So that the first requests of a new system need not wait for it; without it they do it.
  const prepared = withDeadline(recovery.prepare(), { ms: budgetMs, what: 'noting a loss' });
  await prepared.catch((err: unknown) =>
    logger.warn({ err }, 'the claims could not be checked yet'),
  );

  const measuredLog = measureAppends(log, metrics);
  const parts = { claims, recovery, log: measuredLog, metrics, crashPoints, logger, budgetMs };
  const webhooks = {
    endpoints: openWebhookEndpoints(database),
    deliveries: openWebhookDeliveries(database),
    targetPolicy: targetPolicyOf(config.TRIPLOCK_MODE),
  };
  const settlements = openSettlements(database);
  const server = await createHttpServer({
    logger,
    admission: openAdmission(partners, config),
    trustedProxies: config.TRUSTED_PROXIES,
    watch: measureRequests(metrics),
    routes: (app) => addGatewayRoutes(app, { ...parts, ledger, refunds, settlements, ...webhooks }),
  });
  await server.listen({ host: config.HTTP_HOST, port: config.HTTP_PORT }).catch((error: Error) => {
    throw explainListenError(error, 'HTTP_PORT');
  });
  service.onClose('http server', () => server.close());

  await service.serveAdmin({
    readiness: {
      [config.CLAIMS === 'redis' ? 'redis' : 'claims']: () => claims.ping(),
      kafka: () => log.ping(),
      postgres: checkPostgres({ partners, claims }),
      ...(book.store !== 'postgres' && { [book.store]: checkLedger({ ledger, claims }) }),
    },
  });
});
