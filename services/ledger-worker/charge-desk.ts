import { setTimeout as delay } from 'node:timers/promises';
import { isFinal, type AcceptedPayment, type Payment } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import { chargePayment, type ChargeOutcome, type ChargeParts } from './charge-payment.ts';
import type { WorkerMetrics } from './metrics.ts';
import type { Places } from './places.ts';

/** What the desk stands on; times in milliseconds. */
export type DeskParts = ChargeParts & {
  /** Shared with the resolver; a charge keeps its place after it was handed over. */
  places: Places;
  /** How long a batch waits for one of its charges, so that a slow card does not hold a partition. */
  handOverMs: number;
  metrics: Pick<WorkerMetrics, 'charges' | 'unknownAge'>;
  logger: Logger;
};

/** A card payment that is in the ledger: just posted, or found there unfinished. */
export type PostedCard = {
  payment: AcceptedPayment;
  traceparent: string;
  posted: 'now' | 'before';
};

/** What a batch has to know of a charge. `handed-over`: it is pending, durable, and looked after. */
export type ChargeFate = 'charged' | 'declined' | 'handed-over' | 'already-recorded';

/** Charges for batches. */
export type ChargeDesk = {
  /**
   * Waits for a place, and then for the end of the charge, up to the hand-over each. A provider that
   * is left alone is waited for as long, which holds back the partition's next records and spends no
   * attempt.
   *
   * @throws in an outage of the ledger: the row may be pending, and the record has to come again.
   */
  charge(card: PostedCard): Promise<ChargeFate>;
  /** Waits for the charges under way. */
  close(): Promise<void>;
};

/** Opens the desk. */
export function openChargeDesk(parts: DeskParts): ChargeDesk {
  const { places } = parts;
  const underWay = new Set<Promise<unknown>>();

  const charge = async (card: PostedCard): Promise<ChargeFate> => {
    const begun = Promise.withResolvers<'begun'>();
    let abandoned = false;
    // A row that had to wait for a place may have been taken by somebody else meanwhile.
    const posted = places.free() > 0 ? card.posted : 'before';
    const chargeInPlace = async () => {
      await places.take('batch');
      begun.resolve('begun');
      try {
        return abandoned ? 'handed-over' : await chargeInTime(parts, { ...card, posted });
      } finally {
        places.giveBack();
      }
    };
    const charged = chargeInPlace();
    const settled = charged.then(
      () => undefined,
      () => undefined,
    );
    underWay.add(settled);
    void settled.then(() => underWay.delete(settled));
    const waited = await Promise.race([begun.promise, handOver(parts.handOverMs)]);
    abandoned = waited === 'handed-over';
    if (abandoned) return 'handed-over';
    const inTime = await Promise.race([charged, handOver(parts.handOverMs)]);
    if (inTime !== 'handed-over') return inTime;
    // It goes on. What it throws is no news to the batch, and the row is due for another try.
    charged.catch((err: unknown) => {
      parts.logger.warn({ err, txnId: card.payment.txnId }, 'a charge that took long failed');
    });
    return 'handed-over';
  };
  return {
    charge,
    close: async () => void (await Promise.all(underWay)),
  };
}

/** Tries again what was not even sent, as long as the batch waits. */
async function chargeInTime(parts: DeskParts, card: PostedCard): Promise<ChargeFate> {
  const deadline = performance.now() + parts.handOverMs;
  for (let { posted } = card; ; posted = 'before') {
    const payment = await rowOf(parts, { ...card, posted });
    if (payment === undefined) return 'already-recorded';
    const outcome = await chargePayment(parts, { ...card, payment });
    parts.metrics.charges.inc({ outcome: wordFor(outcome) });
    if (outcome.outcome !== 'unknown') return fateOf(outcome);
    const { because } = outcome;
    const restMs = because.retryAfterMs ?? 0;
    const late = performance.now() + restMs >= deadline;
    if (because.sent || late) {
      parts.metrics.unknownAge.observe((Date.now() - payment.acceptedAt.getTime()) / 1_000);
      parts.logger.warn({ err: because.error, txnId: payment.txnId }, 'a charge is unknown');
      return 'handed-over';
    }
    await delay(restMs);
  }
}

/** The row as it is to be charged, or nothing when there is nothing left to do. */
async function rowOf({ ledger }: DeskParts, card: PostedCard): Promise<Payment | undefined> {
  if (card.posted === 'now') {
    const fresh = { state: 'pending', version: 1, amountRefunded: 0n, settledAt: null } as const;
    return { ...card.payment, ...fresh };
  }
  const row = await ledger.find(card.payment.txnId);
  return row === undefined || isFinal(row.state) ? undefined : row;
}

function fateOf(outcome: Exclude<ChargeOutcome, { outcome: 'unknown' }>): ChargeFate {
  switch (outcome.outcome) {
    case 'settled':
      return outcome.state === 'succeeded' ? 'charged' : 'declined';
    case 'waiting':
      return 'handed-over';
    case 'taken-over':
      return isFinal(outcome.state) ? 'already-recorded' : 'handed-over';
    default:
      return outcome satisfies never;
  }
}

function wordFor(outcome: ChargeOutcome): string {
  return outcome.outcome === 'settled' ? outcome.state : outcome.outcome;
}

async function handOver(ms: number): Promise<'handed-over'> {
  await delay(ms, undefined, { ref: false });
  return 'handed-over';
}
