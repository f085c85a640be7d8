import type { AcceptedPayment, Payment, ProviderName } from '@triplock/payments';
import { openCircuitBreaker, type CircuitBreaker, type Provider } from '@triplock/provider';
import {
  lacking,
  openProvider,
  providerNames,
  providerOf,
  type ListedProvider,
  type ProviderSettings,
} from '@triplock/providers';
import { openSlots, type Logger } from '@triplock/runtime';
import { callLabels, type WorkerMetrics } from './metrics.ts';
import type { AskedProvider, Providers, Worker, WorkerAt } from './worker.ts';

/** Each provider by a breaker of its own, with room for so many transactions at once. */
export function askedAt(
  breakers: Readonly<Record<ListedProvider, CircuitBreaker>>,
  { offered, slotsMax }: { offered: readonly ListedProvider[]; slotsMax: number },
): Providers {
  const open = (name: ProviderName, provider: CircuitBreaker): AskedProvider => {
    return { name, provider, slots: openSlots(slotsMax), outlasting: new Set() };
  };
  const asked = new Map(providerNames.map((name) => [name as string, open(name, breakers[name])]));
  const all = [...asked.values()];
  return {
    all,
    offered: all.filter(({ name }) => offered.some((each) => each === name)),
    named(name) {
      const known = asked.get(name);
      if (known !== undefined) return known;
      const provider = refusing(`this worker has no provider ${name}: give it one that has`);
      const gone = open(
        name,
        openCircuitBreaker(provider, { unknownInARowMax: 10, openMs: 1_000 }),
      );
      asked.set(name, gone);
      return gone;
    },
  };
}

/** How the worker asks providers. */
type Asking = {
  timeoutMs: number;
  /** Transactions at one of them at once. */
  slotsMax: number;
  metrics: WorkerMetrics;
  logger: Logger;
  /** Called when calls to one are sent again. */
  onClosed(name: ListedProvider): void;
};

/**
 * Every provider that the settings tell how to ask, also one that is no longer offered, and in the
 * place of any other one that refuses.
 */
export async function openProviders(
  settings: ProviderSettings,
  asking: Asking,
): Promise<Providers> {
  const { timeoutMs, slotsMax, metrics, logger, onClosed } = asking;
  const open = async (name: ListedProvider): Promise<CircuitBreaker> => {
    const lacks = lacking(name, settings);
    const provider =
      lacks.length === 0
        ? await openProvider(name, settings, { timeoutMs })
        : refusing(`this worker has no ${lacks.join(' and no ')}`);
    return openCircuitBreaker(provider, {
      name,
      // Ten in a row are no chance, also where every fifth call goes wrong.
      unknownInARowMax: 10,
      openMs: 1_000,
      onState: (state) => {
        metrics.circuitOpen.set({ provider: name }, state === 'open' ? 1 : 0);
        logger.warn({ provider: name, state }, 'the circuit to a provider changed');
        if (state === 'closed') onClosed(name);
      },
      onCall: (call, { outcome, seconds }) =>
        metrics.calls.observe({ provider: name, call: callLabels[call], outcome }, seconds),
    });
  };
  const opened = providerNames.map(async (name) => [name, await open(name)] as const);
  const breakers = Object.fromEntries(await Promise.all(opened));
  return askedAt(breakers as Record<ListedProvider, CircuitBreaker>, {
    offered: settings.PROVIDERS,
    slotsMax,
  });
}

/**
 * Stands for a provider that cannot be asked. What is to be charged there stays pending, with an
 * alarm, until a person has given the settings: nobody knows what was made of it before.
 */
export function refusing(why: string): Provider {
  const refuse = async () =>
    ({
      outcome: 'unknown',
      error: new Error(why),
      kept: false,
      sent: false,
      untilMended: true,
    }) as const;
  return {
    createIntent: refuse,
    findIntent: refuse,
    confirmIntent: refuse,
    readIntent: refuse,
    captureIntent: refuse,
    cancelIntent: refuse,
    refund: refuse,
    findRefund: refuse,
    listRefunds: refuse,
    listDisputes: refuse,
  };
}

/** The worker as it asks the provider that a row names. */
export function workerAt(worker: Worker, name: ProviderName): WorkerAt {
  return { ...worker, ...worker.providers.named(name) };
}

/** Who charges a payment: as it was posted, or, where its row was not read, by its method. */
export function chargerOf(payment: AcceptedPayment & Partial<Payment>): ProviderName | undefined {
  return payment.provider?.name ?? payment.chargedBy ?? providerOf(payment.details);
}
