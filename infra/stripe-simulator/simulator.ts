import {
  createGuardedServer,
  createRandom,
  quickLimits,
  refusedControl,
  refusedVisit,
} from '@triplock/runtime';
import { fastify, type FastifyInstance } from 'fastify';
import { addApiRoutes } from './api.ts';
import { addAuthenticationPage } from './control/customers.ts';
import { addControlRoutes, addJournalRoute, addWebhookRoutes } from './control/routes.ts';
import { createAlarm, createSettling, type Dials, type Engine } from './engine.ts';
import { createFaults } from './faults.ts';
import { createLimiters } from './limiters.ts';
import { createClock, openStore } from './store/store.ts';
import { createDelivering } from './webhooks.ts';

/** How a simulator is started. */
export type SimulatorOptions = {
  /** The file of its memory; made when it is not there. */
  readonly journal: string;
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly seed: number;
  /** Who uses the controls has to show it; without one nobody may. */
  readonly controlToken: string | undefined;
  readonly dials: Dials;
  /** The journal cannot be written, or work by time failed: it must not go on. */
  readonly onBroken: (error: unknown) => void;
};

/** A running simulator. `url` has no slash at its end. */
export type Simulator = { readonly url: string; close(): Promise<void> };

/** Starts the Stripe simulator in this process, on the journal that is there. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const clock = createClock();
  const store = await openStore(options.journal, clock, options.onBroken);
  const dials = { ...options.dials };
  let url = '';
  const engine: Engine = {
    store,
    clock,
    dials,
    faults: createFaults(options.seed),
    limiters: createLimiters(),
    random: createRandom(options.seed),
    world: {
      account: store.account,
      now: () => clock.now(),
      publicUrl: () => url,
      settleAfterMs: () => dials.settleAfterMs,
      authorizedForMs: () => dials.authorizedForMs,
      searchLagMs: () => dials.searchLagMs,
    },
    changed: () => alarms.forEach((alarm) => alarm.look()),
  };
  const alarms = [
    createAlarm(createSettling(engine), options.onBroken),
    createAlarm(createDelivering(engine), options.onBroken),
  ];
  const app = await buildServer(engine, options);
  url = await app.listen({ host: options.host, port: options.port });
  engine.changed();
  return {
    url,
    async close() {
      // Held requests go on, so that nobody is waited for.
      engine.faults.clear();
      await app.close();
      await Promise.all(alarms.map((alarm) => alarm.close()));
      await store.close();
    },
  };
}

const limits = {
  ...quickLimits,
  // Several workers, each with as many charges under way as it may have.
  connectionsMax: 4_096,
  // Longer than they keep a connection, so that they never send on one that was just closed.
  idleConnectionMs: 75_000,
};

/** One server for both: the API under `/v1` and the controls under `/_simulator`. */
async function buildServer(
  engine: Engine,
  { journal, controlToken }: SimulatorOptions,
): Promise<FastifyInstance> {
  // A caller that holds its connection open must not hold up the end.
  const app = fastify({
    forceCloseConnections: true,
    serverFactory: (handler) => createGuardedServer(handler, limits),
    // Controls mean what they say: nothing unknown is dropped, nothing is made to fit.
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false } },
  });
  // A refusal has no effect and takes no fault: it comes before a body is read.
  app.addHook('onRequest', async (request, reply) => {
    const refused = refusedVisit(request.raw);
    if (refused !== undefined) return reply.code(403).send({ error: refused });
  });
  await app.register(async (api) => addApiRoutes(api, engine));
  // A customer's browser opens it, and has no token.
  await app.register(async (pages) => addAuthenticationPage(pages, engine));
  await app.register(async (controls) => {
    controls.addHook('onRequest', async (request, reply) => {
      const refused = refusedControl(request.raw, controlToken);
      if (refused !== undefined) return reply.code(403).send({ error: refused });
    });
    addControlRoutes(controls, engine);
    addWebhookRoutes(controls, engine);
    addJournalRoute(controls, engine, journal);
  });
  app.get('/healthz', () => ({ status: 'ok' }));
  app.get('/readyz', async () => {
    await engine.store.settled();
    return { status: 'ok' };
  });
  return app;
}
