import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@triplock/testing';
import type { Setup } from '../test/system.ts';
import type { Partner } from '../test/partner.ts';
import type { Arrived, Evidence, Fed, Listed, Row } from './checker.ts';

/**
 * Reads from a server that a storm shakes, as long as it takes: to read again does nothing, and a
 * connection that was kept may be gone when it is used again.
 */
export function readJson<Answer>(url: string): Promise<Answer> {
  return eventually(async () => {
    const response = await fetch(url, { headers: { authorization: 'Bearer sk_test_storm' } });
    const text = await response.text();
    if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
    return JSON.parse(text) as Answer;
  });
}

/** What is read as long as a test lasts. */
type Followed<Item> = { seen: Item[]; stop(): Promise<void> };

/** Follows what partners' servers receive: a page is asked for long before it is forgotten. */
export function followArrivals(test: TestEnd, catcher: string): Followed<Arrived> {
  const arrived: Arrived[] = [];
  let after: number | undefined;
  const isAtEnd = async () => {
    type Page = { last: number; arrivals: (Arrived & { number: number })[] };
    const { last, arrivals } = await readJson<Page>(`${catcher}/arrivals?after=${after ?? 0}`);
    if (after === undefined) {
      // What came before the storm is none of it.
      after = last;
      return true;
    }
    for (const { partner, id, verified, body, number } of arrivals) {
      if (number > after + 1) throw new Error('arrivals were forgotten');
      after = number;
      arrived.push({ partner, id, verified, body });
    }
    return arrivals.length === 0;
  };
  return { seen: arrived, stop: follow(test, { isAtEnd, restMs: 50 }) };
}

/**
 * Reads a partner's feed as its program would that keeps `next` together with what it did, and dies
 * now and then before it has: it reads that page once more.
 */
export function followFeed(test: TestEnd, from: Partner): Followed<Fed> {
  const fed: Fed[] = [];
  let query = `since=${new Date().toISOString()}`;
  let pages = 0;
  type Page = { data: (Fed & Record<string, unknown>)[]; next: string; has_more: boolean };
  const read = () =>
    eventually(
      async () => {
        const { status, body } = await from.send({ path: `/v1/events?limit=100&${query}` });
        if (status !== 200) throw new Error(`${status} ${body}`);
        return JSON.parse(body) as Page;
      },
      { withinMs: 60_000, what: 'a page of the feed' },
    );
  const isAtEnd = async () => {
    const page = await read();
    pages += 1;
    if (pages % 3 === 0) return false;
    for (const { id, position, ...told } of page.data) {
      fed.push({ partner: from.id, id, position, body: JSON.stringify(told) });
    }
    query = `after=${page.next}`;
    return !page.has_more && page.data.length === 0;
  };
  return { seen: fed, stop: follow(test, { isAtEnd, restMs: 100 }) };
}

type TestEnd = { after(end: () => void): void };

/**
 * Reads on again and again until it is stopped, and then to the end; a test that fails before that
 * ends it at once. Gives how to stop it.
 */
function follow(
  test: TestEnd,
  { isAtEnd, restMs }: { isAtEnd(): Promise<boolean>; restMs: number },
): () => Promise<void> {
  const stopping = new AbortController();
  const over = new AbortController();
  test.after(() => over.abort());
  const following = (async () => {
    while (!over.signal.aborted) {
      const wasStopping = stopping.signal.aborted;
      if (!(await isAtEnd())) continue;
      if (wasStopping) return;
      await delay(restMs);
    }
  })();
  following.catch(() => undefined);
  return () => {
    stopping.abort();
    return following;
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
  seen: Pick<Evidence, 'asked' | 'webhooks' | 'fed'> & { run: string },
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
  const list = (what: string) => listAll(system.providers.stripe.url, what);
  const [charges, refunds, disputes] = [
    await list('charges'),
    await list('refunds'),
    await list('disputes'),
  ];
  const ids = new Set(rows.map(({ id }) => id));
  const ours = (each: Listed) => ids.has(each.metadata?.['txn_id'] ?? '');
  const intents = new Set(rows.flatMap(({ intent }) => intent ?? []));
  const { asked, webhooks, fed } = seen;
  return {
    asked,
    rows,
    shown,
    webhooks,
    fed,
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
    type Page = { data: Listed[]; has_more?: boolean };
    const page = await readJson<Page>(`${stripe}/v1/${what}?limit=100${after}`);
    all.push(...page.data);
    hasMore = page.has_more === true;
  }
  return all;
}
