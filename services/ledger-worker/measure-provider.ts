import type { Provider } from '@triplock/provider';
import type { ProviderMetrics } from './metrics.ts';

/**
 * The same provider, each of its calls timed. Let the circuit wrap this one: what the
 * circuit does not send is no call.
 */
export function measureProvider(
  provider: Provider,
  { calls }: Pick<ProviderMetrics, 'calls'>,
): Provider {
  const measure = <Asked, Outcome extends { outcome: string }>(
    call: string,
    ask: (asked: Asked) => Promise<Outcome>,
  ) => {
    calls.zero({ call, outcome: 'answered' });
    calls.zero({ call, outcome: 'unknown' });
    return async (asked: Asked): Promise<Outcome> => {
      const startedMs = performance.now();
      let outcome = 'unknown';
      try {
        const answer = await ask(asked);
        if (answer.outcome !== 'unknown') outcome = 'answered';
        return answer;
      } finally {
        calls.observe({ call, outcome }, (performance.now() - startedMs) / 1_000);
      }
    };
  };
  return {
    createIntent: measure('create-intent', (asked) => provider.createIntent(asked)),
    confirmIntent: measure('confirm-intent', (asked) => provider.confirmIntent(asked)),
    readIntent: measure('read-intent', (asked) => provider.readIntent(asked)),
    cancelIntent: measure('cancel-intent', (asked) => provider.cancelIntent(asked)),
    refund: measure('refund', (asked) => provider.refund(asked)),
    findRefund: measure('find-refund', (asked) => provider.findRefund(asked)),
  };
}
