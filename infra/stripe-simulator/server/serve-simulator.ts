import { fastify, type FastifyInstance } from 'fastify';
import { addAuthenticationPage } from '../control/authentication-page.ts';
import { addControlRoutes } from '../control/control-routes.ts';
import { addJournalRoute } from '../control/journal-route.ts';
import { addWebhookRoutes } from '../control/webhook-routes.ts';
import type { Engine } from '../engine/engine.ts';
import { addApiRoutes } from './api-routes.ts';

/** One door for both: the API under `/v1` and the controls under `/_simulator`. */
export async function buildServer(engine: Engine, journal: string): Promise<FastifyInstance> {
  // A caller that holds its connection open must not hold up the end.
  const app = fastify({
    forceCloseConnections: true,
    // Controls mean what they say: nothing unknown is dropped, nothing is made to fit.
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false } },
  });
  await app.register(async (api) => addApiRoutes(api, engine));
  await app.register(async (controls) => {
    addControlRoutes(controls, engine);
    addWebhookRoutes(controls, engine);
    addAuthenticationPage(controls, engine);
    addJournalRoute(controls, engine, journal);
  });
  app.get('/healthz', () => ({ status: 'ok' }));
  app.get('/readyz', async () => {
    await engine.store.settled();
    return { status: 'ok' };
  });
  return app;
}
