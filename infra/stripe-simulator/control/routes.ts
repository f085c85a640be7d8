import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { createRandom } from '@triplock/runtime';
import type { FastifyInstance } from 'fastify';
import { type FaultOrder, faultKinds } from '../faults.ts';
import type { Limits } from '../limiters.ts';
import { operations } from '../requests.ts';
import {
  type Dials,
  type Engine,
  type WebhookSettings,
  authorizedForMsMax,
  webhookOrders,
} from '../engine.ts';
import { auditAccount } from '../store/account.ts';
import { addCustomerRoutes } from './customers.ts';

const strict = { type: 'object', additionalProperties: false } as const;
const milliseconds = { type: 'integer', minimum: 0, maximum: 86_400_000 } as const;
const requests = { type: 'integer', minimum: 1, maximum: 100_000 } as const;

/** What control requests may say. Anything else is a 400: a misspelt fault must not be no fault. */
const schemas = {
  fault: {
    ...strict,
    required: ['fault'],
    properties: {
      fault: { enum: faultKinds },
      operation: { enum: operations.map(({ name }) => name) },
      probability: { type: 'number', minimum: 0, maximum: 1 },
      count: { type: 'integer', minimum: 1 },
      delayMs: milliseconds,
      retryAfterSeconds: { type: 'integer', minimum: 0, maximum: 3_600 },
    },
  },
  seed: { ...strict, required: ['seed'], properties: { seed: { type: 'integer' } } },
  settings: {
    ...strict,
    properties: {
      searchLagMs: milliseconds,
      settleAfterMs: milliseconds,
      authorizedForMs: { type: 'integer', minimum: 0, maximum: authorizedForMsMax },
      latency: {
        ...strict,
        required: ['medianMs', 'p99Ms'],
        properties: { medianMs: milliseconds, p99Ms: milliseconds },
      },
    },
  },
  limits: {
    ...strict,
    properties: {
      perSecond: requests,
      perSecondOfEach: requests,
      atOnce: requests,
      atOnceOfEach: requests,
    },
  },
  clock: {
    ...strict,
    oneOf: [{ required: ['advanceMs'] }, { required: ['offsetMs'] }],
    properties: { advanceMs: { type: 'integer' }, offsetMs: { type: 'integer' } },
  },
  webhooks: {
    ...strict,
    properties: {
      url: { type: ['string', 'null'], pattern: '^https?://' },
      secret: { type: 'string', minLength: 1 },
      order: { enum: webhookOrders },
      copies: { type: 'integer', minimum: 1, maximum: 10 },
      paused: { type: 'boolean' },
    },
  },
  replay: { ...strict, properties: { event: { type: 'string' }, type: { type: 'string' } } },
} as const;

/** Everything under `/_simulator`: what no merchant can do, and what a test must be able to. */
export function addControlRoutes(app: FastifyInstance, engine: Engine): void {
  addFaultRoutes(app, engine);
  addWorldRoutes(app, engine);
  addCustomerRoutes(app, engine);
  app.get('/_simulator', () => overview(engine));
  app.get<{ Querystring: { metadata_key?: string } }>('/_simulator/audit', async ({ query }) => {
    const audit = auditAccount(engine.store.account, query.metadata_key);
    await engine.store.settled();
    return audit;
  });
}

function addFaultRoutes(app: FastifyInstance, { faults, ...engine }: Engine): void {
  app.get('/_simulator/faults', () => ({ faults: faults.list() }));
  app.post<{ Body: FaultOrder }>(
    '/_simulator/faults',
    { schema: { body: schemas.fault } },
    ({ body }) => faults.add(body),
  );
  app.delete('/_simulator/faults', () => {
    const removed = faults.list();
    faults.clear();
    return { faults: removed };
  });
  app.delete<{ Params: { id: string } }>('/_simulator/faults/:id', ({ params }, reply) => {
    const done = faults.remove(params.id);
    return reply.code(done === 'removed' ? 200 : 404).send({ outcome: done });
  });
  app.put<{ Body: { seed: number } }>(
    '/_simulator/seed',
    { schema: { body: schemas.seed } },
    ({ body }) => {
      faults.reseed(body.seed);
      engine.random = createRandom(body.seed);
      return body;
    },
  );
}

function addWorldRoutes(app: FastifyInstance, engine: Engine): void {
  const { store, clock, dials } = engine;
  app.get('/_simulator/clock', () => clockNow(engine));
  app.post<{ Body: { advanceMs?: number; offsetMs?: number } }>(
    '/_simulator/clock',
    { schema: { body: schemas.clock } },
    async ({ body }) => {
      store.moveClock(body.offsetMs ?? clock.offsetMs() + body.advanceMs!);
      engine.changed();
      await store.settled();
      return clockNow(engine);
    },
  );
  app.put<{ Body: Partial<Omit<Dials, 'webhooks'>> }>(
    '/_simulator/settings',
    { schema: { body: schemas.settings } },
    ({ body }) => {
      return settingsOf(Object.assign(dials, body));
    },
  );
  app.get('/_simulator/limits', () => limitsNow(engine));
  app.put<{ Body: Limits }>(
    '/_simulator/limits',
    { schema: { body: schemas.limits } },
    ({ body }) => {
      engine.limiters.set(body);
      return limitsNow(engine);
    },
  );
  app.post('/_simulator/reset', async () => {
    store.reset();
    engine.faults.clear();
    engine.limiters.set({});
    await store.settled();
    return { outcome: 'done' };
  });
}

function settingsOf({ latency, searchLagMs, settleAfterMs, authorizedForMs }: Dials) {
  return { latency, searchLagMs, settleAfterMs, authorizedForMs };
}

function limitsNow({ limiters }: Engine) {
  return { limits: limiters.limits(), refused: limiters.refused() };
}

function clockNow({ clock }: Engine) {
  return { now: new Date(clock.now()).toISOString(), offsetMs: clock.offsetMs() };
}

function overview(engine: Engine) {
  const { webhooks } = engine.dials;
  const { account, undelivered } = engine.store;
  return {
    clock: clockNow(engine),
    settings: settingsOf(engine.dials),
    webhooks: { ...webhooks, secret: undefined, undelivered: undelivered.size() },
    limited: limitsNow(engine),
    faults: engine.faults.list(),
    objects: {
      payment_intents: account.paymentIntents.size(),
      charges: account.charges.size(),
      refunds: account.refunds.size(),
      disputes: account.disputes.size(),
      events: account.events.size(),
    },
  };
}

/** Where events go, how badly, and which go once more. */
export function addWebhookRoutes(app: FastifyInstance, engine: Engine): void {
  const { store, dials, clock } = engine;
  app.get('/_simulator/webhooks', () => shown(engine));
  app.put<{ Body: Partial<WebhookSettings> }>(
    '/_simulator/webhooks',
    { schema: { body: schemas.webhooks } },
    ({ body }) => {
      dials.webhooks = { ...dials.webhooks, ...body };
      engine.changed();
      return shown(engine);
    },
  );
  app.post<{ Body: { event?: string; type?: string } }>(
    '/_simulator/webhooks/replay',
    { schema: { body: schemas.replay } },
    ({ body }) => {
      let replayed = 0;
      for (const { id, type } of store.account.events.oldestFirst()) {
        if (body.event !== undefined && body.event !== id) continue;
        if (body.type !== undefined && body.type !== type) continue;
        store.undelivered.add(id, clock.now());
        replayed += 1;
      }
      engine.changed();
      return { replayed };
    },
  );
}

function shown({ dials, store }: Engine) {
  const { url, order, copies, paused } = dials.webhooks;
  const waiting = store.undelivered.slice(0, store.undelivered.size());
  const undelivered = waiting.map(({ event, attempts, dueAt }) => {
    const type = store.account.events.get(event)?.type;
    return { event, type, attempts, dueAt: new Date(dueAt).toISOString() };
  });
  return { url, order, copies, paused, undelivered };
}

/**
 * The journal as it is on disk, from a byte on, one JSON entry per line. `Journal-Size` is where
 * the next reading goes on from.
 */
export function addJournalRoute(app: FastifyInstance, engine: Engine, path: string): void {
  const from = { type: 'string', pattern: '^\\d{1,15}$', default: '0' };
  app.get<{ Querystring: { from: string } }>(
    '/_simulator/journal',
    { schema: { querystring: { type: 'object', properties: { from } } } },
    async ({ query }, reply) => {
      await engine.store.settled();
      const size = engine.store.journalSize();
      const start = Number(query.from);
      const lines =
        start >= size ? Readable.from([]) : createReadStream(path, { start, end: size - 1 });
      return reply.header('journal-size', size).type('application/x-ndjson').send(lines);
    },
  );
}
