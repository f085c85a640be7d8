import { setTimeout as delay } from 'node:timers/promises';
import { newKey, type Answer, type Partner } from './partner.ts';
import type { StormLoad } from './storm-loads.ts';

/** A payment that was sent, and what came of it. */
export type Paid = { key: string; body: unknown; answer: Answer };

/** Has clients pay, each one payment after the other, until it is told to stop. */
export function payInTurns(
  from: Partner,
  { clients, idleMs }: Pick<StormLoad['still'], 'clients' | 'idleMs'>,
): { sent: Paid[]; stop(): Promise<void> } {
  const sent: Paid[] = [];
  let stopping = false;
  const pay = async () => {
    while (!stopping) {
      const [key, body] = [newKey('still'), { amount: 300, currency: 'EUR' }];
      sent.push({ key, body, answer: await from.pay(key, body) });
      await delay(idleMs);
    }
  };
  const paying = Array.from({ length: clients }, pay);
  return {
    sent,
    stop: async () => {
      stopping = true;
      await Promise.all(paying);
    },
  };
}
