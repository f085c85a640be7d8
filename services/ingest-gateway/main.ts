import { openClaims } from '@triplock/claim-stores';
import { compileSchemas } from '@triplock/contracts';
import { openLedgerStore } from '@triplock/ledgers';
import {
  openPartnerKeys,
  openPartners,
  openEventFeed,
  openSettlements,
  openWebhookDeliveries,
  openWebhookEndpoints,
  targetPolicyOf,
  type Partners,
} from '@triplock/partners';
import type { TxnId } from '@triplock/payments';
import { openDatabase, type Database } from '@triplock/postgres';
import {
  explainListenError,
  runLoop,
  runService,
  shareReads,
  withDeadline,
  type Service,
} from '@triplock/runtime';
import {
  kafkaOf,
  meterThrottles,
  openGroupCommit,
  openTopicOffsets,
  requireDurable,
} from '@triplock/transport';
import { askTogether } from './accept/ledger-questions.ts';
import { recoverLosses } from './accept/loss-recovery.ts';
import { keepReadBack } from './accept/read-back.ts';
import { renewUnposted } from './accept/unposted.ts';
import { readConfig, type Config } from './config.ts';
import { wholeLedger } from './accept/find-key.ts';
import type { Gateway } from './gateway.ts';
import { openAdmission, openBacklog } from './http/admission.ts';
import { addReadBackGauge, gatewayMetrics, measureRequests } from './http/metrics.ts';
import { checkClaims, checkLedger, checkPostgres, showClaimState } from './http/readiness.ts';
import { createHttpServer, type HttpServerOptions } from './http/server.ts';
import { openTurns } from './http/turns.ts';
import { addGatewayRoutes } from './routes/gateway-routes.ts';
import { ingestGateway } from './service.ts';

// A request is answered within 3 s. Authenticating may take 0.5 s of them, releasing a claim 0.2 s;
// the rest is for everything between.
const budgetMs = 2_200;
// What a last use is known to anyway.
const storeUsesEveryMs = 60_000;

await runService(ingestGateway, readConfig, async (config, service) => {
  const { logger, crashPoints } = service;
  const claims = await openClaims(config, service);
  const backlogs = { claims: openBacklog(), appends: openBacklog() };
  const metrics = gatewayMetrics(service.metrics, claims, backlogs);
  const database = openGatewayDatabase(config, service);
  const store = await openLedgerStore(config, () => database, { callLimitMs: budgetMs });
  const { ledger, followUps, continuity } = store;
  if (store.store !== 'postgres') service.onClose('ledger', () => ledger.close());
  const partners = openPartners(database);
  storeKeyUses(partners, service);

  const { ACCEPTED_TOPIC: topic, INSTANCE_NAME: clientId } = config;
  const onThrottled = meterThrottles(service.metrics);
  const kafka = { ...kafkaOf(config, { clientId, logger, onThrottled }), topic };
  await requireDurable({ ...kafka, mode: config.TRIPLOCK_MODE });
  const offsets = openTopicOffsets({ ...kafka, groupId: config.LEDGER_GROUP });
  service.onClose('topic offsets', () => offsets.close());
  const log = openGroupCommit(kafka);
  service.onClose('kafka producer', () => log.close());
  const recovery = recoverLosses({ claims, ledger, offsets, logger });
  // So that the first requests of a new system need not wait for it; without it they do it.
  const prepared = withDeadline(recovery.prepare(), { ms: budgetMs, what: 'noting a loss' });
  await prepared.catch((err) => logger.warn({ err }, 'the claims could not be checked yet'));

  const sameLedger = () => wholeLedger(continuity);
  const readBack = keepReadBack({ claims, ledger, recovery, wholeLedger: sameLedger }, service);
  addReadBackGauge(service.metrics, readBack);

  const gateway: Gateway = {
    claims,
    recovery,
    readBack,
    unposted: renewUnposted({ claims, offsets }, service),
    log,
    backlogs,
    turns: openTurns(),
    // A payment that many wait for is looked for once.
    ledger: { ...ledger, find: shareReads((txnId: TxnId) => ledger.find(txnId)) },
    questions: askTogether(ledger, { limitMs: budgetMs, count: metrics.questions }),
    wholeLedger: sameLedger,
    refunds: { ...followUps, find: shareReads((txnId: TxnId) => followUps.find(txnId)) },
    settlements: openSettlements(database),
    events: openEventFeed(database),
    endpoints: openWebhookEndpoints(database, config.WEBHOOK_KEYS),
    apiKeys: openPartnerKeys(database, config.WEBHOOK_KEYS),
    actionKeys: config.ACTION_KEYS,
    deliveries: openWebhookDeliveries(database),
    targetPolicy: targetPolicyOf(config.TRIPLOCK_MODE),
    metrics,
    crashPoints,
    logger,
    offered: config.PROVIDERS,
    budgetMs,
  };
  compileSchemas();
  const server = await createHttpServer({
    logger,
    admission: openAdmission(partners, config),
    watch: measureRequests(metrics),
    ...edgeOf(config),
    routes: (app) => addGatewayRoutes(app, gateway),
  });
  const address = { host: config.HTTP_HOST, port: config.HTTP_PORT };
  await server.listenWidely(address).catch((error: Error) => {
    throw explainListenError(error, 'HTTP_PORT');
  });
  service.onClose('http server', () => server.close());

  await service.serveAdmin({
    readiness: {
      [config.CLAIMS === 'redis' ? 'redis' : 'claims']: checkClaims(claims, readBack),
      kafka: () => log.ping(),
      postgres: checkPostgres(partners, readBack),
      ...(store.store !== 'postgres' && { [store.store]: checkLedger(ledger, readBack) }),
    },
    routes: { 'GET /claims': showClaimState(readBack) },
  });
});

/** Writes down when keys were last used, off every request's way, and once more at the end. */
function storeKeyUses(partners: Partners, { logger, onClose }: Service): void {
  const storing = { name: 'store when keys were used', idleMs: storeUsesEveryMs, logger };
  const loop = runLoop(() => partners.storeKeyUses(), storing);
  onClose('when keys were used', async () => {
    await loop.stop();
    await partners.storeKeyUses();
  });
}

/** The database that partners are in, and the ledger in `postgres`. */
function openGatewayDatabase(config: Config, { logger, onClose }: Service): Database {
  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    connectTimeoutMs: budgetMs,
    statementTimeoutMs: budgetMs,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  onClose('database', () => database.close());
  return database;
}

/** How much the edge holds at once, and whom it believes. */
function edgeOf(config: Config): Pick<HttpServerOptions, 'limits' | 'trustedProxies'> {
  return {
    trustedProxies: config.TRUSTED_PROXIES,
    limits: {
      connectionsMax: config.CONNECTIONS_MAX,
      requestsMax: config.REQUESTS_IN_FLIGHT_MAX,
      perPartnerMax: config.REQUESTS_PER_PARTNER_MAX,
      perConnectionMax: config.REQUESTS_PER_CONNECTION_MAX,
    },
  };
}
