import type { LedgerStore } from '@triplock/ledgers';
import { openCircuitBreaker, openStripe, type CircuitBreaker } from '@triplock/provider';
import { runLoop, type Loop, type Service } from '@triplock/runtime';
import { openChargeDesk, type ChargeDesk } from './charge-desk.ts';
import type { Config } from './config.ts';
import { openDueFinisher } from './finish-due.ts';
import { callLabels, type WorkerMetrics } from './metrics.ts';
import { openPlaces } from './places.ts';

/** Ten unknown outcomes in a row are no chance, also where every fifth call goes wrong. */
const patience = { unknownInARowMax: 10, openMs: 1_000 };

/** What is settled with the provider's help: for batches, and by the resolver. */
export type Charging = {
  desk: ChargeDesk;
  resolver: Loop;
  provider: CircuitBreaker;
};

/** Wires the provider to the two that ask it; the resolver runs until it is stopped. */
export function openCharging(
  config: Config,
  parts: Pick<Service, 'crashPoints' | 'logger'> &
    Pick<LedgerStore, 'ledger' | 'refunds' | 'takeDue'> & { metrics: WorkerMetrics },
): Charging {
  const { logger } = parts;
  const { STRIPE_API_KEY: apiKey, STRIPE_API_URL: apiUrl } = config;
  const stripe = openStripe({
    apiKey,
    timeoutMs: config.PROVIDER_TIMEOUT_MS,
    ...(apiUrl === undefined ? {} : { apiUrl }),
  });
  const onState = (state: string) => {
    parts.metrics.circuitOpen.set(state === 'open' ? 1 : 0);
    logger.warn({ state }, 'the circuit to the provider changed');
    if (state === 'closed') resolver.wake();
  };
  const provider = openCircuitBreaker(stripe, {
    ...patience,
    onState,
    onCall: (call, { outcome, seconds }) =>
      parts.metrics.calls.observe({ call: callLabels[call], outcome }, seconds),
  });
  const actionExpiresMs = config.ACTION_EXPIRES_HOURS * 3_600_000;
  const places = openPlaces(config.CHARGES_MAX);
  const asking = { ...parts, provider, places, actionExpiresMs };
  const desk = openChargeDesk({ ...asking, handOverMs: config.HAND_OVER_MS });
  const finisher = openDueFinisher(asking);
  const resolver = runLoop(finisher.begin, { name: 'resolver', idleMs: 1_000, logger });
  const stop = async () => {
    await resolver.stop();
    await finisher.ended();
  };
  return { desk, resolver: { ...resolver, stop }, provider };
}
