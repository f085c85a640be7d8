import { createHmac } from 'node:crypto';
import https from 'node:https';
import { http, shuffled } from '@triplock/runtime';
import type { DueWork, Engine, WebhookSettings } from './engine.ts';
import { renderEvent } from './render/records.ts';
import type { Delivery } from './store/store.ts';

/**
 * "We attempt to deliver events … for up to three days": https://docs.stripe.com/webhooks#retries
 */
const triedForMs = 3 * 24 * 60 * 60 * 1_000;
const firstRetryMs = 1_000;
const longestRetryMs = 60 * 60 * 1_000;

/**
 * Enough to keep an endpoint busy that answers after some hundred milliseconds, few enough not to
 * be an attack on it.
 */
const atOnceMax = 200;

/**
 * Sends events until they are answered with a 2xx: at least once, in no promised order
 * (https://docs.stripe.com/webhooks#event-ordering). An event that was taken right before a crash
 * is sent again after it.
 */
export function createDelivering(engine: Engine): DueWork {
  const { store, clock, dials } = engine;
  return {
    nextInMs() {
      const { url, paused } = dials.webhooks;
      const nextAt = store.undelivered.nextAt();
      if (url === null || paused || nextAt === undefined) return undefined;
      return nextAt - clock.now();
    },
    async pass() {
      // Nothing is sent that a crash could undo.
      await store.settled();
      const settings = dials.webhooks;
      const batch = chooseDue(engine, settings.order);
      if (settings.order === 'any') {
        await Promise.all(batch.map((each) => deliver(engine, each, settings)));
      } else {
        for (const each of batch) await deliver(engine, each, settings);
      }
      return batch.length;
    },
  };
}

function chooseDue({ store, clock, random }: Engine, order: WebhookSettings['order']) {
  const { undelivered } = store;
  const due = undelivered.countDue(clock.now());
  switch (order) {
    case 'any':
      return undelivered.slice(0, Math.min(due, atOnceMax));
    case 'created':
      return oldestFirst(undelivered.slice(0, due)).slice(0, atOnceMax);
    case 'reversed':
      return oldestFirst(undelivered.slice(0, due)).toReversed().slice(0, atOnceMax);
    case 'shuffled':
      return shuffled(undelivered.slice(0, due), random).slice(0, atOnceMax);
  }
}

/** One that was refused is due later than those that came after it. */
function oldestFirst(due: readonly Delivery[]): Delivery[] {
  return due.toSorted((one, other) => one.since - other.since);
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
    // A clock that was set ahead lets time pass; one that was set behind is how late it is there.
    const sentAt = Math.floor(Math.min(Date.now(), clock.now()) / 1_000);
    taken = (await postEvent(payload, { url, secret, sentAt })) === 'taken' || taken;
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
function postEvent(
  payload: string,
  to: { url: string; secret: string; sentAt: number },
): Promise<'taken' | 'not-taken'> {
  if (!URL.canParse(to.url)) return Promise.resolve('not-taken');
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(payload),
    'stripe-signature': signEvent(payload, to),
    'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
  };
  // Not by fetch, which takes twice the CPU.
  const { request } = new URL(to.url).protocol === 'https:' ? https : http;
  const answer = new Promise<'taken' | 'not-taken'>((resolve) => {
    const sending = request(to.url, { method: 'POST', headers });
    const late = setTimeout(() => sending.destroy(), answerWithinMs);
    sending.on('response', (response) => {
      const { statusCode = 0 } = response;
      resolve(statusCode >= 200 && statusCode < 300 ? 'taken' : 'not-taken');
      // Its connection is used again once it is read.
      response.on('error', () => undefined).resume();
    });
    // Refused, reset or too slow: whatever it was, the event is sent again.
    sending.on('error', () => resolve('not-taken'));
    sending.on('close', () => {
      clearTimeout(late);
      resolve('not-taken');
    });
    sending.end(payload);
  });
  // By a URL that nobody can be asked at, such as one with a broken name of a user.
  return answer.catch(() => 'not-taken');
}

/**
 * The `Stripe-Signature` of a payload: HMAC-SHA256 of `t.payload`, in hex
 * (https://docs.stripe.com/webhooks#verify-manually). `sentAt` in seconds since 1970 by the
 * machine's clock, or the simulator's where that is behind: the receiver compares it with its own,
 * with a tolerance of 300 s.
 */
function signEvent(payload: string, by: { secret: string; sentAt: number }): string {
  const signed = createHmac('sha256', by.secret).update(`${by.sentAt}.${payload}`).digest('hex');
  return `t=${by.sentAt},v1=${signed}`;
}
