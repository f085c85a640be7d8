import type { DueWork } from '../engine/alarm.ts';
import type { Engine } from '../engine/engine.ts';
import { renderEvent } from '../render/render-record.ts';
import type { Delivery } from '../store/undelivered.ts';
import { postEvent } from './post-event.ts';
import type { WebhookSettings } from './webhook-settings.ts';

/**
 * "We attempt to deliver events … for up to three days": https://docs.stripe.com/webhooks#retries
 */
const triedForMs = 3 * 24 * 60 * 60 * 1_000;
const firstRetryMs = 1_000;
const longestRetryMs = 60 * 60 * 1_000;

/** Enough to keep an endpoint busy, few enough not to be an attack on it. */
const atOnceMax = 16;

/**
 * Sends events until they are answered with a 2xx: at least once, in no promised order
 * (https://docs.stripe.com/webhooks#event-ordering). An event that was taken right before a crash
 * is sent again after it.
 */
export function createDelivering(engine: Engine): DueWork {
  const { store, clock, dials } = engine;
  const due = () => [...store.undelivered.all()].filter(({ dueAt }) => dueAt <= clock.now());
  return {
    nextInMs() {
      const { url, paused } = dials.webhooks;
      if (url === null || paused || store.undelivered.size() === 0) return undefined;
      let next = Infinity;
      for (const { dueAt } of store.undelivered.all()) next = Math.min(next, dueAt);
      return next - clock.now();
    },
    async pass() {
      // Nothing is told that a crash could undo.
      await store.settled();
      const settings = dials.webhooks;
      const batch = inOrder(due(), settings, engine).slice(0, atOnceMax);
      if (settings.order === 'any') {
        await Promise.all(batch.map((each) => deliver(engine, each, settings)));
      } else {
        for (const each of batch) await deliver(engine, each, settings);
      }
      return batch.length;
    },
  };
}

function inOrder(due: Delivery[], { order }: WebhookSettings, engine: Engine): Delivery[] {
  switch (order) {
    case 'any':
    case 'created':
      return due;
    case 'reversed':
      return due.reverse();
    case 'shuffled':
      return due
        .map((delivery) => ({ delivery, place: engine.random() }))
        .sort((a, b) => a.place - b.place)
        .map(({ delivery }) => delivery);
  }
}

async function deliver(engine: Engine, delivery: Delivery, settings: WebhookSettings) {
  const { store, clock } = engine;
  const event = store.account.events.get(delivery.event);
  const { url, secret } = settings;
  // A reset may have emptied the account while this pass was under way.
  if (event === undefined) return store.undelivered.remove(delivery.event);
  if (url === null) return;
  const payload = JSON.stringify(renderEvent(event));
  let taken = false;
  for (let copy = 0; copy < settings.copies; copy += 1) {
    taken = (await postEvent(payload, { url, secret })) === 'taken' || taken;
  }
  if (taken) return store.endDelivery(event.id, 'delivered');
  const now = clock.now();
  if (now - delivery.since >= triedForMs) return store.endDelivery(event.id, 'gave-up');
  const attempts = delivery.attempts + 1;
  const waitMs = Math.min(firstRetryMs * 2 ** (attempts - 1), longestRetryMs);
  store.undelivered.update({ ...delivery, attempts, dueAt: now + waitMs });
}
