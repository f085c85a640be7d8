import { UsageError, count } from '@triplock/command';
import { formatMoney } from '@triplock/payments';
import type { Accepted } from './orders.ts';
import type { System } from './system.ts';

/** A fault of the simulator; infra/stripe-simulator/README.md has them all. */
export type ProviderFault = { fault: string; operation: string; count: number; delayMs?: number };

/**
 * What the provider says of a payment: its intents by state, its charges that succeeded, and what
 * it has taken and holds, in minor units.
 */
export type ProviderSide = {
  intents: readonly string[];
  charges: readonly string[];
  taken: number;
  held: number;
};

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

/**
 * Moves the provider's clock while `work` goes on: what it remembers for a day is forgotten after
 * one.
 */
export async function withProviderClock<Result>(
  system: System,
  offsetMs: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const move = (ms: number) =>
    control(system, { method: 'POST', path: '/clock', body: { offsetMs: ms } });
  const { offsetMs: before } = await control<{ offsetMs: number }>(system, {
    method: 'GET',
    path: '/clock',
  });
  await move(before + offsetMs);
  try {
    return await work();
  } finally {
    await move(before);
  }
}

/** How long the provider takes for an answer, log-normal; milliseconds. */
export type ProviderLatency = { medianMs: number; p99Ms: number };

/** Has the simulator take its time while `work` goes on. */
export async function withProviderLatency<Result>(
  system: System,
  latency: ProviderLatency,
  work: () => Promise<Result>,
): Promise<Result> {
  const take = (each: ProviderLatency) =>
    control(system, { method: 'PUT', path: '/settings', body: { latency: each } });
  await take(latency);
  try {
    return await work();
  } finally {
    await take({ medianMs: 0, p99Ms: 0 });
  }
}

/**
 * Has the provider take no more than so many calls a second while `work` goes on. Resolves with how
 * many it turned away.
 */
export async function withProviderLimit<Result>(
  system: System,
  perSecond: number,
  work: () => Promise<Result>,
): Promise<{ result: Result; turnedAway: number }> {
  type Limiters = { refused: Readonly<Record<string, number>> };
  const turnedAway = ({ refused }: Limiters) =>
    Object.values(refused).reduce((sum, count) => sum + count, 0);
  const put = (body: object) => control<Limiters>(system, { method: 'PUT', path: '/limits', body });
  const before = await put({ perSecond });
  try {
    const result = await work();
    const after = await control<Limiters>(system, { method: 'GET', path: '/limits' });
    return { result, turnedAway: turnedAway(after) - turnedAway(before) };
  } finally {
    await put({});
  }
}

/**
 * Has a customer do what the bank asks for, on the bank's page. `not-asked`: the payment is final
 * at the provider, so there is nothing to do.
 */
export async function askCustomer(
  system: System,
  txnId: string,
  outcome: 'succeeded' | 'failed',
): Promise<'done' | 'not-asked'> {
  const [intent] = await intentsOf(system, txnId);
  if (intent === undefined) throw new Error(`the provider has no intent of ${txnId}`);
  const path = `/payment_intents/${intent.id}/authenticate`;
  if (intent.status !== 'requires_action') return 'not-asked';
  await control(system, { method: 'POST', path, body: { outcome } });
  return 'done';
}

/** Has a customer ask the bank for a part of what was taken, in minor units. */
export async function disputeAtBank(
  system: System,
  { id: txnId, body: { currency } }: Pick<Accepted, 'id' | 'body'>,
  amount: number,
): Promise<void> {
  const [intent] = await intentsOf(system, txnId);
  if (intent === undefined) throw new Error(`the provider has no intent of ${txnId}`);
  const path = `/payment_intents/${intent.id}/dispute`;
  const dispute = await control<{ id: string }>(system, { method: 'POST', path, body: { amount } });
  const money = formatMoney(amount, currency);
  system.report(`the bank opens dispute ${dispute.id} of ${money} for the customer`);
}

// A scenario looks at payments and refunds of moments ago.
const newestMax = 100;

type Intent = {
  id: string;
  status: string;
  latest_charge: string | null;
  amount_received: number;
  amount_capturable: number;
  metadata: { txn_id?: string };
};

async function intentsOf(system: System, txnId: string): Promise<Intent[]> {
  requireSimulator(system);
  const { data } = await ask<{ data: Intent[] }>(
    `${system.endpoints.providers.stripe.url}/v1/payment_intents?limit=${newestMax}`,
    { headers: { authorization: 'Bearer sk_test_triplock' } },
  );
  return data.filter(({ metadata }) => metadata.txn_id === txnId);
}

/** Asks the provider itself, by its own API. */
export async function askProvider(system: System, txnId: string): Promise<ProviderSide> {
  const mine = await intentsOf(system, txnId);
  const charged = mine.filter(({ status }) => status === 'succeeded');
  return {
    intents: mine.map(({ status }) => status),
    charges: charged.map(({ latest_charge: charge }) => charge!),
    taken: sumOf(mine.map((intent) => intent.amount_received)),
    held: sumOf(mine.map((intent) => intent.amount_capturable)),
  };
}

const sumOf = (amounts: readonly number[]) => amounts.reduce((sum, each) => sum + each, 0);

/** What the provider gave back for these refunds of ours, in minor units each. */
export async function askProviderRefunds(
  system: System,
  txnIds: readonly string[],
): Promise<number[]> {
  requireSimulator(system);
  type Refund = { status: string; amount: number; metadata: { txn_id?: string } };
  const { data } = await ask<{ data: Refund[] }>(
    `${system.endpoints.providers.stripe.url}/v1/refunds?limit=${newestMax}`,
    { headers: { authorization: 'Bearer sk_test_triplock' } },
  );
  return data
    .filter(
      ({ status, metadata: { txn_id: id } }) => status === 'succeeded' && txnIds.includes(id!),
    )
    .map(({ amount }) => amount);
}

/** In words: what the provider has of a payment. */
export function describeProvider({ intents, charges }: ProviderSide): string {
  return `${count(charges.length, 'charge')} at the provider (intent ${intents.join(', ')})`;
}

/** @throws UsageError where cards are charged at Stripe itself, which fails on nobody's order. */
export function requireSimulator(system: System): void {
  if (hasSimulator(system)) return;
  throw new UsageError('this needs the Stripe simulator: unset STRIPE_API_KEY and start again');
}

/** Whether cards are charged at the simulator, which fails on order. */
export function hasSimulator({ endpoints }: System): boolean {
  return endpoints.providers.stripe.url.startsWith('http://127.0.0.1:');
}

function control<Answer>(
  system: System,
  { method, path, body }: { method: string; path: string; body?: object },
): Promise<Answer> {
  requireSimulator(system);
  const { endpoints } = system;
  return ask(`${endpoints.providers.stripe.url}/_simulator${path}`, {
    method,
    headers: {
      authorization: `Bearer ${endpoints.controlToken}`,
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
}

async function ask<Answer>(url: string, init: RequestInit): Promise<Answer> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(answerTimeoutMs) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
  return JSON.parse(text) as Answer;
}
