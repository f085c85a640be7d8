import { setTimeout as delay } from 'node:timers/promises';
import type { Setup } from '../test/system.ts';
import type { Arrived, AskedKey, Evidence, Listed, Row } from './checker.ts';

/** Follows what partners' servers receive: a page is asked for long before it is forgotten. */
export function followArrivals(catcher: string): { arrived: Arrived[]; stop(): Promise<void> } {
  const arrived: Arrived[] = [];
  const stopping = new AbortController();
  let after: number | undefined;
  const read = async (): Promise<number> => {
    const response = await fetch(`${catcher}/arrivals?after=${after ?? 0}`);
    type Page = { last: number; arrivals: (Arrived & { number: number })[] };
    const { last, arrivals } = (await response.json()) as Page;
    if (after === undefined) {
      // What came before the storm is none of it.
      after = last;
      return 0;
    }
    for (const { partner, id, verified, body, number } of arrivals) {
      if (number > after + 1) throw new Error('arrivals were forgotten');
      after = number;
      arrived.push({ partner, id, verified, body });
    }
    return arrivals.length;
  };
  const follow = async () => {
    while (!stopping.signal.aborted) if ((await read()) === 0) await delay(50);
    while ((await read()) > 0);
  };
  const following = follow();
  following.catch(() => undefined);
  return {
    arrived,
    stop: () => {
      stopping.abort();
      return following;
    },
  };
}

const rowsSql = `
  SELECT txn_id AS id, kind, partner_id AS partner, idempotency_key AS key,
    payment_id AS payment, state, amount::float8 AS amount, currency,
    amount_refunded::float8 AS amount_refunded, amount_captured::float8 AS amount_captured,
    failure_code, provider_intent_id AS intent, provider_charge_id AS charge
  FROM ledger.transactions WHERE starts_with(idempotency_key, $1)`;

/** Gathers what is to be judged of a run, whose keys all begin alike, once nothing is in flight. */
export async function gatherEvidence(
  { look, system, acme, globex }: Pick<Setup, 'look' | 'system' | 'acme' | 'globex'>,
  seen: { run: string; asked: readonly AskedKey[]; webhooks: readonly Arrived[] },
): Promise<Evidence> {
  const rows = await look.ledger.query<Row>(rowsSql, [seen.run]);
  const clients = { acme, globex };
  const shown = new Map<string, Readonly<Record<string, unknown>>>();
  const left = rows.values();
  const show = async () => {
    for (const { id, kind, partner } of left) {
      const client = clients[partner as keyof typeof clients];
      const { status, body } = await client.send({ path: `/v1/${kind}s/${id}` });
      if (status === 200) shown.set(id, JSON.parse(body) as Record<string, unknown>);
    }
  };
  await Promise.all(Array.from({ length: 8 }, show));
  const list = (what: string) => listAll(system.stripe, what);
  const [charges, refunds, disputes] = [
    await list('charges'),
    await list('refunds'),
    await list('disputes'),
  ];
  const ids = new Set(rows.map(({ id }) => id));
  const ours = (each: Listed) => ids.has(each.metadata?.['txn_id'] ?? '');
  const intents = new Set(rows.flatMap(({ intent }) => intent ?? []));
  const { asked, webhooks } = seen;
  return {
    asked,
    rows,
    shown,
    webhooks,
    // Those of other runs are not in these rows; what has no row of any run is found by its intent.
    charges: charges.filter((each) => ours(each) || intents.has(each.payment_intent ?? '')),
    refunds: refunds.filter((each) => ours(each) || intents.has(each.payment_intent ?? '')),
    disputes: disputes.filter((each) => intents.has(each.payment_intent ?? '')),
  };
}

/** Every object of a kind, by the provider's own pages. */
async function listAll(stripe: string, what: string): Promise<Listed[]> {
  const all: Listed[] = [];
  for (let hasMore = true; hasMore;) {
    const last = all.at(-1)?.id;
    const after = last === undefined ? '' : `&starting_after=${last}`;
    const response = await fetch(`${stripe}/v1/${what}?limit=100${after}`, {
      headers: { authorization: 'Bearer sk_test_checker' },
    });
    const page = (await response.json()) as { data?: Listed[]; has_more?: boolean };
    if (page.data === undefined) throw new Error(`${what}: ${JSON.stringify(page)}`);
    all.push(...page.data);
    hasMore = page.has_more === true;
  }
  return all;
}
