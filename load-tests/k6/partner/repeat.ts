import { sleep } from 'k6';
import type { Accepted } from './pay.ts';
import { noteDuplicate } from './note-duplicate.ts';
import { retryAfter, send } from './send.ts';
import { tallies } from './tallies.ts';

const triesMax = 20;

/** Sends an accepted order again, as it was, until it is answered by what was answered before. */
export function repeat(accepted: Accepted): void {
  for (let tries = 0; tries < triesMax; tries += 1) {
    const answer = send(accepted.order);
    noteDuplicate(answer, accepted.bytes);
    if (answer.status !== 409) return;
    sleep(retryAfter(answer));
  }
}

/** Uses an accepted order's key for another body, which must be refused. */
export function reuse({ order }: Accepted): void {
  const body = JSON.stringify({ amount: 1, currency: 'EUR', reference: `not ${order.key}` });
  tallies.otherBodies.add(1);
  if (send({ ...order, body }).status === 422) tallies.otherBodiesRefused.add(1);
}
