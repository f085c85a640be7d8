import type { FastifyInstance } from 'fastify';
import type { Engine } from '../engine/engine.ts';
import type { WebhookSettings } from '../webhooks/webhook-settings.ts';
import { schemas } from './control-schemas.ts';

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
  const undelivered = [...store.undelivered.all()].map(({ event, attempts, dueAt }) => {
    const type = store.account.events.get(event)?.type;
    return { event, type, attempts, dueAt: new Date(dueAt).toISOString() };
  });
  return { url, order, copies, paused, undelivered };
}
