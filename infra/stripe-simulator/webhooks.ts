import { createHmac } from 'node:crypto';
import type { DueWork, Engine, WebhookSettings } from './engine.ts';
import { renderEvent } from './render/records.ts';
import type { Delivery } from './store/store.ts';

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
      // Nothing is sent that a crash could undo.
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
        .map((delivery) => ({ delivery, rank: engine.random() }))
        .sort((a, b) => a.rank - b.rank)
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

/** Stripe gives an endpoint some seconds; a slow one gets the event again. */
const answerWithinMs = 10_000;

/**
 * Sends one copy of an event. Only a 2xx is taking it; a redirect is not followed
 * (https://docs.stripe.com/webhooks#retries).
 */
async function postEvent(
  payload: string,
  to: { url: string; secret: string },
): Promise<'taken' | 'not-taken'> {
  const sentAt = Math.floor(Date.now() / 1_000);
  try {
    const response = await fetch(to.url, {
      method: 'POST',
      body: payload,
      redirect: 'manual',
      signal: AbortSignal.timeout(answerWithinMs),
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'stripe-signature': signEvent(payload, { secret: to.secret, sentAt }),
        'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
      },
    });
    await response.body?.cancel();
    return response.ok ? 'taken' : 'not-taken';
  } catch {
    // Refused, reset or too slow: whatever it was, the event is sent again.
    return 'not-taken';
  }
}

/**
 * The `Stripe-Signature` of a payload: HMAC-SHA256 of `t.payload`, in hex
 * (https://docs.stripe.com/webhooks#verify-manually). `sentAt` in seconds since 1970 by the
 * machine's clock and not the simulator's: the receiver compares it with its own, with a tolerance
 * of 300 s.
 */
function signEvent(payload: string, by: { secret: string; sentAt: number }): string {
  const signed = createHmac('sha256', by.secret).update(`${by.sentAt}.${payload}`).digest('hex');
  return `t=${by.sentAt},v1=${signed}`;
}
