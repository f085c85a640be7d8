import http, { type RefinedBatchRequest, type RefinedResponse } from 'k6/http';
import { settings } from './scenario.ts';
import { tallies } from './tallies.ts';

/** A request that changes something, its body as it is sent, under its idempotency key. */
export type Order = { partner: string; path: string; key: string; body: string };

/** An answer with its body as text. */
export type Answer = RefinedResponse<'text'>;

// Above the gateway's own 3 s, so that what it says in time is heard.
const timeout = '10s';

let sent = 0;

/** Sends it once. */
export function send(order: Order): Answer {
  return sendAll([order])[0]!;
}

/** Sends them at once, each on a connection of its own, and to the gateways in turn. */
export function sendAll(orders: readonly Order[]): Answer[] {
  const answers = http.batch(orders.map(requestOf));
  for (const answer of answers) tally(answer);
  return answers;
}

function requestOf({ partner, path, key, body }: Order): RefinedBatchRequest<'text'> {
  sent += 1;
  return {
    method: 'POST',
    url: settings.gateways[sent % settings.gateways.length]! + path,
    body,
    params: {
      timeout,
      responseType: 'text',
      headers: {
        authorization: `Bearer ${settings.apiKeys[partner]}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      // With the id of its payment in it each refund would be a series of its own.
      tags: { name: path.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '{id}') },
    },
  };
}

function tally(answer: Answer): void {
  if (isReplay(answer)) tallies.replayed.add(1);
  else if (answer.status === 409) tallies.inFlight.add(1);
  else if (answer.status === 422) tallies.reused.add(1);
  else if (answer.status === 429) tallies.limited.add(1);
  else if (answer.status === 0) tallies.unanswered.add(1);
}

/** Whether it is the stored answer of an earlier request. */
export function isReplay(answer: Answer): boolean {
  return answer.headers['Idempotency-Replayed'] === 'true';
}

/** Whether the same request may get another answer later: none came, or it says so. */
export function mayChange({ status }: Answer): boolean {
  return status === 0 || status === 409 || status === 429 || status >= 500;
}

/** How long an answer asks to wait, in seconds. */
export function retryAfter(answer: Answer): number {
  const asked = Number(answer.headers['Retry-After']);
  return asked > 0 ? asked : 0.2;
}
