import { inSpan } from '@triplock/runtime';
import { openCircuit } from './circuit.ts';
import type { Provider, Unknown } from './provider.ts';

/** How gently a provider is treated. */
export type ProviderLimits = {
  /**
   * As many unknown outcomes in a row mean that it is in trouble, and calls are given up unsent.
   */
  unknownInARowMax: number;
  /** How long it is then left alone before one call tries; doubled each time, a minute at most. */
  restMs: number;
  /** Told when calls stop being sent, and when they are again. */
  onCircuit?: (state: 'open' | 'closed') => void;
};

/** A provider that can be left alone for good; calls under way go on. */
export type GuardedProvider = Provider & {
  /**
   * How many callers may begin to ask it now, for those who can wait: none while it is left alone,
   * one when it is time to try, and any number when it is well.
   */
  callersMax(): number;
  close(): void;
};

/** However long a provider asks to be left alone, it is asked again after this. */
const restMsMax = 60_000;

/**
 * A provider that is asked nothing while it is in trouble, or as long as it asked to be left alone
 * (`Retry-After`). A call that was not sent is `unknown` like any other: whoever
 * calls asks again later, and nothing was spent on it.
 */
export function guardProvider(provider: Provider, limits: ProviderLimits): GuardedProvider {
  const { unknownInARowMax: troublesInARowMax, ...rests } = limits;
  const circuit = openCircuit({ ...rests, troublesInARowMax, restMsMax });
  let leftAloneUntil = 0;
  let closed = false;
  const restMs = () => leftAloneUntil - performance.now();

  const guarded = async <Outcome extends { outcome: string }>(
    what: keyof Provider,
    call: () => Promise<Outcome>,
  ): Promise<Outcome | Unknown> => {
    if (closed) return unsent(new Error('shutting down'), restMsMax);
    const leftMs = restMs();
    if (leftMs > 0) return unsent(new Error('the provider asked to be left alone'), leftMs);
    const leave = circuit.leave();
    if (leave.outcome === 'rest') {
      return unsent(
        new Error('calls to the provider are suspended because it was failing'),
        leave.restMs,
      );
    }
    // Whatever the package sends for one call, a second try after a reset too, is within this span.
    const outcome = await inSpan({ name: `stripe ${what}` }, () => answerOf(call));
    leave.ended(outcome.outcome === 'unknown' ? 'trouble' : 'well');
    leftAloneUntil = Math.max(leftAloneUntil, askedToRestUntil(outcome));
    return outcome;
  };
  return {
    createIntent: (request) => guarded('createIntent', () => provider.createIntent(request)),
    confirmIntent: (request) => guarded('confirmIntent', () => provider.confirmIntent(request)),
    readIntent: (asked) => guarded('readIntent', () => provider.readIntent(asked)),
    cancelIntent: (asked) => guarded('cancelIntent', () => provider.cancelIntent(asked)),
    refund: (request) => guarded('refund', () => provider.refund(request)),
    findRefund: (request) => guarded('findRefund', () => provider.findRefund(request)),
    callersMax: () => (closed || restMs() > 0 ? 0 : circuit.callersMax()),
    close: () => (closed = true),
  };
}

async function answerOf<Outcome>(call: () => Promise<Outcome>): Promise<Outcome | Unknown> {
  try {
    return await call();
  } catch (error) {
    return { outcome: 'unknown', error, kept: false, sent: true };
  }
}

function askedToRestUntil(outcome: { outcome: string; retryAfterMs?: number }): number {
  const { retryAfterMs = 0 } = outcome;
  return performance.now() + Math.min(retryAfterMs, restMsMax);
}

function unsent(error: unknown, retryAfterMs: number): Unknown {
  return { outcome: 'unknown', error, kept: false, sent: false, retryAfterMs };
}
