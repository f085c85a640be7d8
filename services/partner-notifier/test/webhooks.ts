import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { eventOf } from '@triplock/contracts';
import { openInbox } from '@triplock/inbox';
import {
  openPartners,
  openWebhookDeliveries,
  openWebhookEndpoints,
  parseWebhookKeys,
  seedPartner,
  type Partners,
} from '@triplock/partners';
import type { EventId, PartnerId } from '@triplock/payments';
import type { Database, Queryable } from '@triplock/postgres';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase, succeeded, testWebhookKeys } from '@triplock/testing';
import {
  notifyPartners,
  openDeliveries,
  type AttemptRecord,
  type Deliveries,
  type LeaseRequest,
  type Retention,
  type SendRates,
  type WhoSends,
} from '../deliveries.ts';
import { askEndpoints } from '../endpoint-verification.ts';
import { notifierMetrics } from '../metrics.ts';
import { releaseDeliveries } from '../upkeep.ts';
import { createSendWebhook } from '../webhook-client.ts';
import { createSender, type RetryLimits, type SendLimits } from '../webhook-sender.ts';

export const anHour = 3_600_000;
const dayMs = 24 * anHour;
/** One for each, so that a test sees which. */
export const retention: Retention = { deliveredMs: 30 * dayMs, undeliveredMs: 90 * dayMs };
/** Rates that no test comes near. */
export const manyRates: SendRates = {
  partner: { inFlight: 1_000, aSecond: 1_000_000 },
  host: { inFlight: 1_000, aSecond: 1_000_000 },
};
/** An attempt that comes again. */
export const notDelivered: AttemptRecord = {
  outcome: 'refused',
  status: 500,
  error: 'answered 500',
  tookMs: 12.5,
  nextInMs: 5_000,
  giveUpAfterMs: 24 * anHour,
};
/** An attempt that succeeded. */
export const delivered: AttemptRecord = {
  ...notDelivered,
  outcome: 'delivered',
  status: 204,
  error: null,
};

/** A sender that takes nothing: what is made is due for another. */
export const noRoom: WhoSends = {
  reserve: () => ({
    request: { owner: 'nobody', leaseMs: anHour, deliveriesMax: 0 },
    take: () => undefined,
    giveBack: () => undefined,
  }),
};

/** Deliveries of partners with an open endpoint, as the notifier sees them. */
export async function queues(context: TestContext, lengths: Readonly<Record<string, number>>) {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  for (const [partner, length] of Object.entries(lengths)) {
    await setEndpoint(store.open(), partner);
    await insert(database, partner, length);
  }
  const deliveries = openDeliveries(database, manyRates);
  const all = { owner: 'a', leaseMs: anHour, deliveriesMax: 1_000 };
  const lease = async (wish: Partial<LeaseRequest> = {}) =>
    (await deliveries.lease({ ...all, ...wish })).leased;
  /** As a sender leases whose rates are these. */
  const leaseBy = async (rates: RateWish, wish: Partial<LeaseRequest> = {}) => {
    const wished = openDeliveries(database, withRates(rates));
    return (await wished.lease({ ...all, ...wish })).leased;
  };
  return { database, owner: store.open(), deliveries, lease, leaseBy };
}

type RateWish = { [Of in keyof SendRates]?: Partial<SendRates[Of]> };

/** Rates that no test comes near, but for these. */
function withRates({ partner, host }: RateWish): SendRates {
  return { partner: { ...manyRates.partner, ...partner }, host: { ...manyRates.host, ...host } };
}

/** Opens a partner's endpoints, all at one host, by default its own; makes one if it has none. */
export async function setEndpoint(owner: Queryable, partner: string, host = `${partner}.example`) {
  const known = await owner.query(
    `UPDATE partners.webhook_endpoints
     SET url = $2, host = $3, verified_url = $2, verified_at = now(), disabled_at = NULL
     WHERE partner_id = $1 AND deleted_at IS NULL
     RETURNING endpoint_id`,
    [partner, `https://${host}`, host],
  );
  if (known.length === 0) await addEndpoint(owner, partner, { host });
}

/** Gives a partner one more open endpoint, which wants these types of events or all. */
export async function addEndpoint(
  owner: Queryable,
  partner: string,
  { host, wants = null }: { host: string; wants?: readonly string[] | null },
): Promise<string> {
  const [made] = await owner.query<{ id: string }>(
    `WITH partner AS (
       INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT DO NOTHING
     )
     INSERT INTO partners.webhook_endpoints
       (partner_id, event_types, url, host, verified_url, verified_at, secrets)
     VALUES ($1, $4, $2, $3, $2, now(), '[{"id": "1", "key": "one", "box": ""}]')
     RETURNING endpoint_id AS id`,
    [partner, `https://${host}`, host, wants],
  );
  return made!.id;
}

/** As after a 410 Gone. */
export const isGone = `UPDATE partners.webhook_endpoints SET disabled_at = now()`;

/** Makes deliveries that are to be sent to a partner's oldest endpoint. */
export function insert(database: Queryable, partner: string, rows: number): Promise<unknown> {
  return database.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, endpoint_id, txn_id, body)
     SELECT gen_random_uuid(), $1, first.id, gen_random_uuid(), '{"type":"payment.failed"}'
     FROM generate_series(1, $2::integer), (
       SELECT endpoint_id FROM partners.live_webhook_endpoints WHERE partner_id = $1
       UNION ALL SELECT '00000000-0000-0000-0000-000000000000' LIMIT 1
     ) AS first (id)`,
    [partner, rows],
  );
}

const webhookKeys = parseWebhookKeys(testWebhookKeys);
const otherKeys = parseWebhookKeys(testWebhookKeys.replace('test', 'other'));
const retryAtOnce = { firstMs: 0, maxMs: 0, giveUpAfterMs: 3_600_000 };
type NotifierWish = Partial<SendLimits> & { perPartnerMax?: number; rates?: RateWish };

const anHourLater = `UPDATE partners.endpoint_verifications
  SET asked_at = asked_at - interval '1 hour', next_at = next_at - interval '1 hour'`;
const twoHoursLater = `UPDATE webhooks.deliveries
  SET first_attempt_at = first_attempt_at - interval '2 hours',
      next_attempt_at = next_attempt_at - interval '2 hours'`;

/** What sends webhooks, over a database of one test's own, in steps that the test takes. */
export async function aNotifier(
  context: TestContext,
  { perPartnerMax = 8, rates, ...limits }: NotifierWish = {},
) {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const crashPoints = createCrashPoints();
  const metrics = notifierMetrics(createMetrics('test'));
  const notifier = {
    deliveries: openDeliveries(
      database,
      withRates({ partner: { inFlight: perPartnerMax }, ...rates }),
    ),
    partners: openPartners(database, { webhookKeys }),
    send: createSendWebhook({ policy: 'loopback-too', resolve: async () => [], timeoutMs: 10_000 }),
    retry: retryAtOnce,
    metrics,
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
    crashPoints,
  };
  const endpoints = openWebhookEndpoints(store.open('triplock_gateway'), webhookKeys);
  const allLimits = { owner: 'one', leaseMs: 60_000, inFlightMax: 16, ...limits };
  const sender = createSender(notifier, allLimits);
  const senderOf = (partners: Partners) => createSender({ ...notifier, partners }, allLimits);
  const stopping = new AbortController().signal;
  const notifyAll = eventsComing(database, notifier.deliveries);
  return {
    owner: store.open(),
    sender,
    overtaker: createSender(notifier, { ...allLimits, owner: 'another' }),
    /** One that lacks the key that secrets are sealed with. */
    keyless: senderOf(openPartners(database, { webhookKeys: otherKeys })),
    /** One to which each endpoint moves to another host between its lease and its attempt. */
    moving: senderOf(whoMove(notifier.partners)),
    crashPoints,
    metrics,
    giveUpAfter: (ms: number) => void (notifier.retry = { ...retryAtOnce, giveUpAfterMs: ms }),
    retryBy: (retry: RetryLimits) => void (notifier.retry = retry),
    endpoint: (id: string, url: string) => seedEndpoint(store.open(), id, url),
    /** Has an event come, of which `by` sends at once what there is room for; else it is due. */
    async notify(partner: string, by: WhoSends = noRoom) {
      const [eventId] = await notifyAll([partner], by);
      return eventId!;
    },
    notifyAll,
    release: releaseDeliveries(notifier.deliveries),
    send: notifier.send,
    /** Opens what was set, as where nobody has to prove anything. */
    verify: untilAnswered(askEndpoints(notifier, { policy: 'off', stopping })),
    /** Asks the endpoints that are to be asked now, and waits for their answers. */
    ask: untilAnswered(askEndpoints(notifier, { policy: 'required', stopping })),
    endpoints,
    /** Has two hours pass for every delivery. */
    twoHoursPass: () => store.open().query(twoHoursLater),
    /** Has an hour pass since endpoints were asked. */
    askAgainLater: () => store.open().query(anHourLater),
    disable: () => store.open().query(isGone),
    async setUrl(url: string, id = 'acme') {
      const insert = 'INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT DO NOTHING';
      await store.open().query(insert, [id]);
      return endpoints.setUrl({ partnerId: id as PartnerId, url });
    },
    show: () => endpoints.show('acme' as PartnerId),
    askAgain: (eventId: EventId) => {
      const delivery = { partnerId: 'acme' as PartnerId, eventId, ordinal: 1 };
      return openWebhookDeliveries(store.open('triplock_gateway')).redeliver(delivery);
    },
    states: () => statesIn(database),
  };
}

const untilAnswered = (pass: ReturnType<typeof askEndpoints>) => () => pass().finally(pass.settled);

/** Has events of these partners come together, of which `by` sends what there is room for. */
function eventsComing(database: Database, deliveries: Deliveries) {
  const inbox = openInbox(database, 'partner-notifier');
  return async (partners: readonly string[], by: WhoSends) => {
    const events = partners.map((partner) => succeeded(aPayment({ partner })));
    const received = events.map((event) => ({ ...eventOf(event), payloadHash: 'hash' }));
    await inbox.receive(received, notifyPartners(deliveries, by));
    return events.map((event) => event.event_id);
  };
}

async function statesIn(database: Database): Promise<string[]> {
  const rows = await database.query<{ state: string; attempts: number }>(
    'SELECT state, attempts FROM webhooks.deliveries ORDER BY created_at',
  );
  return rows.map(({ state, attempts }) => `${state} ${attempts}`);
}

function whoMove(partners: Partners): Partners {
  return {
    ...partners,
    async webhookEndpoint(id) {
      const endpoint = await partners.webhookEndpoint(id);
      return endpoint && { ...endpoint, host: `moved.${endpoint.host}` };
    },
  };
}

function seedEndpoint(owner: Database, id: string, webhookUrl: string): Promise<void> {
  const webhookSecret = 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM=';
  const seed = { id: id as PartnerId, apiKey: `key-of-${id}`, webhookUrl, webhookSecret };
  return seedPartner(owner, seed, webhookKeys);
}

/** A webhook as a partner's server got it. */
export type Received = { path: string; headers: IncomingHttpHeaders; body: string };
export type Answer = (response: ServerResponse, received: Received) => void;

/** A partner's server in a test: it keeps what came and answers as it is set. */
export type Receiver = {
  url: string;
  received: Received[];
  /** Answers from now on; 204 by default. */
  answerWith(answer: Answer): void;
};

/** Starts a receiver on a free port of 127.0.0.1 and stops it after the test. */
export async function aReceiver(test: { after(fn: () => void): void }): Promise<Receiver> {
  const received: Received[] = [];
  let answer: Answer = (response) => void response.writeHead(204).end();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString('utf8');
      const one = { path: request.url!, headers: request.headers, body };
      received.push(one);
      answer(response, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    received,
    answerWith: (next) => void (answer = next),
  };
}
