import { UsageError } from '@triplock/infra';
import type { System } from './system.ts';
import { count } from './terminal/words.ts';

/** A fault of the simulator; infra/README.md has them all. */
export type ProviderFault = { fault: string; operation: string; count: number; delayMs?: number };

/** What the provider says of a payment: its intents by state, and its charges that succeeded. */
export type ProviderSide = { intents: readonly string[]; charges: readonly string[] };

const answerTimeoutMs = 10_000;

/**
 * Makes something go wrong at the provider while `work` goes on. Resolves with how often it really
 * did; what is left of the fault is taken back.
 */
export async function withProviderFault(
  system: System,
  fault: ProviderFault,
  work: () => Promise<void>,
): Promise<number> {
  const { id } = await control<{ id: string }>(system, {
    method: 'POST',
    path: '/faults',
    body: fault,
  });
  try {
    await work();
    const { faults } = await control<{ faults: { id: string; hits: number }[] }>(system, {
      method: 'GET',
      path: '/faults',
    });
    return faults.find((each) => each.id === id)?.hits ?? 0;
  } finally {
    await control(system, { method: 'DELETE', path: `/faults/${id}` });
  }
}

// A scenario looks at a payment of moments ago.
const newestIntents = 100;

/** Asks the provider itself, by its own API. */
export async function askProvider(system: System, txnId: string): Promise<ProviderSide> {
  requireSimulator(system);
  type Intent = { status: string; latest_charge: string | null; metadata: { txn_id?: string } };
  const { data } = await ask<{ data: Intent[] }>(
    `${system.endpoints.stripe}/v1/payment_intents?limit=${newestIntents}`,
    { headers: { authorization: 'Bearer sk_test_triplock' } },
  );
  const mine = data.filter(({ metadata }) => metadata.txn_id === txnId);
  const charged = mine.filter(({ status }) => status === 'succeeded');
  return {
    intents: mine.map(({ status }) => status),
    charges: charged.map(({ latest_charge: charge }) => charge!),
  };
}

/** In words: what the provider has of a payment. */
export function describeProvider({ intents, charges }: ProviderSide): string {
  return `${count(charges.length, 'charge')} at the provider (intent ${intents.join(', ')})`;
}

/** @throws UsageError where cards are charged at Stripe itself, which fails on nobody's order. */
export function requireSimulator({ endpoints }: System): void {
  if (endpoints.stripe.startsWith('http://127.0.0.1:')) return;
  throw new UsageError('this needs the Stripe simulator: unset STRIPE_API_KEY and start again');
}

function control<Answer>(
  system: System,
  { method, path, body }: { method: string; path: string; body?: object },
): Promise<Answer> {
  requireSimulator(system);
  const { endpoints } = system;
  return ask(`${endpoints.stripe}/_simulator${path}`, {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
}

async function ask<Answer>(url: string, init: RequestInit): Promise<Answer> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(answerTimeoutMs) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
  return JSON.parse(text) as Answer;
}
