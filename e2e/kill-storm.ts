import { setTimeout as delay } from 'node:timers/promises';
import { killProcess } from '@triplock/launcher';
import { newKey, type Answer, type Partner } from './partner.ts';
import { home, restore } from './system.ts';

/** A request and what came of it. */
export type Sent = { key: string; answer: Answer };

/**
 * Sends payments at a fixed rate until told to stop, whatever becomes of them; every fifth goes out
 * twice at once. Of requests that a killed gateway took with it nothing is told.
 */
export async function sendSteadily(
  from: Partner,
  { perSecond, stop }: { perSecond: number; stop: AbortSignal },
): Promise<Sent[]> {
  const sent: Promise<Sent | undefined>[] = [];
  const began = performance.now();
  const passedMs = () => performance.now() - began;
  while (!stop.aborted) {
    while (sent.length < (passedMs() / 1_000) * perSecond) {
      const key = newKey('storm');
      const copies = sent.length % 5 === 0 ? 2 : 1;
      for (let copy = 0; copy < copies; copy += 1) sent.push(trySend(from, key));
    }
    await delay(5);
  }
  return (await Promise.all(sent)).filter((each) => each !== undefined);
}

/** A killed gateway answers nothing at all, which tells the partner as little as a 503. */
async function trySend(from: Partner, key: string): Promise<Sent | undefined> {
  const body = { amount: 100, currency: 'EUR', reference: key };
  const answer = await from.pay(key, body).catch(() => undefined);
  return answer && { key, answer };
}

/**
 * Kills one process after the other and has the launcher bring each back, as long as it goes on and
 * so often at least.
 */
export async function killInTurn(
  names: readonly string[],
  storm: { everyMs: number; killsMin: number; goesOn(): boolean },
): Promise<void> {
  let kills = 0;
  while (kills < storm.killsMin || storm.goesOn()) {
    // A stride, so that the two of a service do not die one after the other.
    await killProcess({ home, name: names[(kills * 3) % names.length]! });
    kills += 1;
    await Promise.all([restore(), delay(storm.everyMs)]);
  }
}
