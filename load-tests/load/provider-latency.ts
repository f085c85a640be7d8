import type { System } from '@triplock/demo';
import { LauncherError } from '@triplock/infra';
import type { LoadScenario } from './load-scenarios.ts';

const answerTimeoutMs = 5_000;

/**
 * Has the provider's simulator answer as slowly as a provider does while `work` runs. The real Stripe
 * is as slow as it is.
 */
export async function withProviderLatency<Result>(
  { endpoints }: Pick<System, 'endpoints'>,
  latency: LoadScenario['providerLatency'],
  work: () => Promise<Result>,
): Promise<Result> {
  if (latency === undefined || !endpoints.stripe.startsWith('http:')) return work();
  await set(endpoints.stripe, latency);
  try {
    return await work();
  } finally {
    await set(endpoints.stripe, { medianMs: 0, p99Ms: 0 });
  }
}

async function set(stripe: string, latency: { medianMs: number; p99Ms: number }): Promise<void> {
  const answer = await fetch(`${stripe}/_simulator/settings`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ latency }),
    signal: AbortSignal.timeout(answerTimeoutMs),
  });
  if (!answer.ok)
    throw new LauncherError(`the simulator of Stripe refused: ${await answer.text()}`);
}
