import { setTimeout as delay } from 'node:timers/promises';
import type { PartnerId } from '@triplock/payments';
import { runLoop, type Logger, type Loop, type Pass } from '@triplock/runtime';
import type { LeasedDelivery } from './deliveries.ts';
import { deliverWebhook, type Notifier } from './webhook-attempts.ts';

/** How much is sent at once, and for how long a delivery is leased. */
export type SendLimits = {
  owner: string;
  /** Longer than the longest attempt with its look-ups and its record. */
  leaseMs: number;
  inFlightMax: number;
  perPartnerMax: number;
};

/** Sends what is due, many at once. */
export type Sender = {
  /** Leases what is due and there are slots for, and begins to send it. Returns how many. */
  pass: Pass;
  /** Resolves to 1 once an attempt ended and freed its slot, to 0 when none did within `ms`. */
  slotFreeWithin(ms: number): Promise<number>;
  /** Resolves when what is under way now has come to its end. */
  settled(): Promise<void>;
  /**
   * Ends the attempts that are not answered yet, for good; each is recorded and will be retried.
   */
  giveUp(): void;
};

/**
 * A sender of due deliveries. A pass does not wait for the attempts it begins: a slow endpoint
 * keeps its partner's slots busy and nothing else.
 */
export function createSender(notifier: Notifier, limits: SendLimits): Sender {
  const underWay = new Map<LeasedDelivery, Promise<void>>();
  const givingUp = new AbortController();

  const begin = (delivery: LeasedDelivery) => {
    const { eventId, partnerId } = delivery;
    const attempt = deliverWebhook(notifier, delivery, givingUp.signal).then(
      () => undefined,
      (err: unknown) => {
        notifier.logger.warn(
          { err, eventId, partnerId },
          'webhook attempt not recorded, will be repeated when its lease ends',
        );
      },
    );
    underWay.set(
      delivery,
      attempt.finally(() => underWay.delete(delivery)),
    );
  };

  return {
    async pass() {
      if (underWay.size >= limits.inFlightMax) await Promise.race(underWay.values());
      const leased = await notifier.deliveries.lease({
        owner: limits.owner,
        leaseMs: limits.leaseMs,
        deliveriesMax: limits.inFlightMax - underWay.size,
        perPartnerMax: limits.perPartnerMax,
        underWay: countByPartner(underWay.keys()),
      });
      if (leased.length > 0) await notifier.crashPoints.reached('webhook.leased');
      for (const delivery of leased) begin(delivery);
      return leased.length;
    },
    async slotFreeWithin(ms) {
      const timeIsUp = new AbortController();
      const ended = [...underWay.values()].map((attempt) => attempt.then(() => 1));
      const late = delay(ms, 0, { signal: timeIsUp.signal }).catch(() => 0);
      return Promise.race([...ended, late]).finally(() => timeIsUp.abort());
    },
    settled: async () => void (await Promise.all(underWay.values())),
    giveUp: () => givingUp.abort(),
  };
}

function countByPartner(deliveries: Iterable<LeasedDelivery>): Map<PartnerId, number> {
  const counts = new Map<PartnerId, number>();
  for (const { partnerId } of deliveries) counts.set(partnerId, (counts.get(partnerId) ?? 0) + 1);
  return counts;
}

// Webhooks go out this long after their event at the latest while the sender rests.
const idleMs = 100;
// Stays below the time a service has for its shutdown, so that what was given up is still recorded.
const shutdownGraceMs = 8_000;

/** Sends for ever. Stopping takes no new deliveries and lets those under way come to their end. */
export function runSender(sender: Sender, logger: Logger): Pick<Loop, 'stop'> {
  // A partner whose share is full has more to send as soon as one of its attempts ends.
  const pass = async () => (await sender.pass()) || sender.slotFreeWithin(idleMs);
  const loop = runLoop(pass, { name: 'send webhooks', idleMs: 1, logger });
  return {
    async stop() {
      const graceIsOver = setTimeout(() => sender.giveUp(), shutdownGraceMs);
      await loop.stop();
      await sender.settled();
      clearTimeout(graceIsOver);
    },
  };
}
