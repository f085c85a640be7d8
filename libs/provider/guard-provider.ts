import {
  BrokenCircuitError,
  circuitBreaker,
  ConsecutiveBreaker,
  ExponentialBackoff,
  handleWhenResult,
  type IPolicy,
} from 'cockatiel';
import type { Provider, Unknown } from './provider.ts';

/** How gently a provider is treated. */
export type ProviderLimits = {
  /** As many unknown outcomes in a row mean that it is in trouble, and calls are given up unsent. */
  unknownInARowMax: number;
  /** How long it is then left alone before one call tries; doubled each time, a minute at most. */
  restMs: number;
  /** Told when calls stop being sent, and when they are again. */
  onCircuit?: (state: 'open' | 'closed') => void;
};

/** A provider that can be left alone for good; calls under way go on. */
export type GuardedProvider = Provider & { close(): void };

/** However long a provider asks to be left alone, it is asked again after this. */
const restMsMax = 60_000;

/**
 * A provider that is asked nothing while it is in trouble, or as long as it asked to be left alone
 * (`Retry-After`). A call that was not sent is `unknown` like any other: whoever
 * calls asks again later, and nothing was spent on it.
 */
export function guardProvider(provider: Provider, limits: ProviderLimits): GuardedProvider {
  const policy = policyOf(limits);
  let leftAloneUntil = 0;
  let closed = false;

  const guarded = async <Outcome extends { outcome: string }>(
    call: () => Promise<Outcome>,
  ): Promise<Outcome | Unknown> => {
    if (closed) return unsent(new Error('shutting down'), restMsMax);
    const restMs = leftAloneUntil - performance.now();
    if (restMs > 0) return unsent(new Error('the provider asked to be left alone'), restMs);
    try {
      const outcome: Outcome | Unknown = await policy.execute(call);
      leftAloneUntil = Math.max(leftAloneUntil, askedToRestUntil(outcome));
      return outcome;
    } catch (error) {
      if (error instanceof BrokenCircuitError) return unsent(error, limits.restMs);
      return { outcome: 'unknown', error, kept: false, sent: true };
    }
  };
  return {
    createIntent: (request) => guarded(() => provider.createIntent(request)),
    confirmIntent: (request) => guarded(() => provider.confirmIntent(request)),
    readIntent: (...args) => guarded(() => provider.readIntent(...args)),
    cancelIntent: (...args) => guarded(() => provider.cancelIntent(...args)),
    refund: (request) => guarded(() => provider.refund(request)),
    findRefund: (request) => guarded(() => provider.findRefund(request)),
    close: () => (closed = true),
  };
}

function policyOf({ unknownInARowMax, restMs, onCircuit }: ProviderLimits): IPolicy {
  const trouble = handleWhenResult(
    (result) => (result as { outcome: string }).outcome === 'unknown',
  );
  const circuit = circuitBreaker(trouble, {
    halfOpenAfter: new ExponentialBackoff({ initialDelay: restMs, maxDelay: restMsMax }),
    breaker: new ConsecutiveBreaker(unknownInARowMax),
  });
  circuit.onBreak(() => onCircuit?.('open'));
  circuit.onReset(() => onCircuit?.('closed'));
  return circuit;
}

function askedToRestUntil(outcome: { outcome: string; retryAfterMs?: number }): number {
  const { retryAfterMs = 0 } = outcome;
  return performance.now() + Math.min(retryAfterMs, restMsMax);
}

function unsent(error: unknown, retryAfterMs: number): Unknown {
  return { outcome: 'unknown', error, kept: false, sent: false, retryAfterMs };
}
