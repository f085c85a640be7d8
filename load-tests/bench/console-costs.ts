import { setTimeout as delay } from 'node:timers/promises';
import type { System } from '@triplock/demo';
import type { ServiceName } from '@triplock/launcher';
import { askFigures, figuresPath, readFigures } from '@triplock/inspect';
import { renderTable, style, type Terminal } from '@triplock/command';
import { deriveEventId, type TxnId } from '@triplock/payments';
import { openForCommand, type Database } from '@triplock/postgres';
import { describeRig, readMetrics, type Rig } from '../systems.ts';
import { payModel } from './audit-at-size.ts';
import type { Size } from './many-payments.ts';
import { readSample } from './measurements.ts';
import { makeEveryLayer } from './plans.ts';

/** How long a page took, of all that were asked for, from the request to the end of its answer. */
type PageTimes = { page: string; path: string; p50: number; p99: number };

/** What asking one process for its figures takes: all of them, or those that the console shows. */
type AskCost = { bytes: number; itsMicros: number; askersMicros: number };
type Looked = { service: ServiceName; whole: AskCost; named: AskCost };

/** Figures of the console at size, and whether every page is within its goal. */
export type ConsoleReport = {
  ok: boolean;
  rig: Rig;
  size: Size;
  pages: readonly PageTimes[];
  looks: readonly Looked[];
  /** CPU of the console for one look, with one browser that watches. */
  lookMicros: number;
};

const goalMs = 100;
const asksOfPage = 200;
const asksOfProcess = 300;
const watchedSeconds = 40;
const lookEverySeconds = 2;

/** Makes so many payments, asks for every page that reads them, and looks at every process. */
export async function runConsoleCosts(
  { system, terminal }: { system: System; terminal: Terminal },
  size: Size,
): Promise<ConsoleReport> {
  const rig = describeRig();
  const url = system.endpoints.postgres;
  const limits = { connectionsMax: 1, statementTimeoutMs: 3_600_000 };
  const database = openForCommand({ url, applicationName: 'bench', ...limits });
  try {
    const making = { url, terminal, signal: system.signal };
    await makeEveryLayer(making, { database, modelId: await payModel(system), size });
    return { ...(await measureConsole({ system, terminal }, database)), rig, size };
  } finally {
    await database.close();
  }
}

async function measureConsole(
  { system, terminal }: Asking,
  database: Database,
): Promise<Omit<ConsoleReport, 'rig' | 'size'>> {
  const pages = await askPages({ system, terminal }, await takeSamples(database, system));
  const looks = await askProcesses({ system, terminal });
  const lookMicros = await watchOnce({ system, terminal });
  // By the median: on a busy machine 1 of 100 waits for others, whatever it asks for.
  return { ok: pages.every(({ p50 }) => p50 <= goalMs), pages, looks, lookMicros };
}

/** Of what is there some, anywhere in it. */
type Samples = {
  payments: { id: string; key: string; createdAt: Date }[];
  cards: { id: string; intent: string; refund: string }[];
  /** What cursors of these lists are bound to, by the list's query. */
  digests: Readonly<Record<string, string>>;
};

const listsWithCursor = ['', 'partner=acme', 'status=succeeded'];

async function takeSamples(database: Database, system: System): Promise<Samples> {
  const payments = await database.query<Samples['payments'][number]>(
    `SELECT txn_id AS id, idempotency_key AS key, created_at AS "createdAt"
     FROM ledger.transactions TABLESAMPLE BERNOULLI (1)
     WHERE kind = 'payment' AND payment_method IS NULL ORDER BY random() LIMIT $1`,
    [asksOfPage],
  );
  const cards = await database.query<Samples['cards'][number]>(
    `SELECT card.txn_id AS id, card.provider_intent_id AS intent, refund.txn_id AS refund
     FROM ledger.transactions AS refund JOIN ledger.transactions AS card
       ON card.txn_id = refund.payment_id
     WHERE refund.kind = 'refund' AND refund.idempotency_key LIKE 'bench-card-%' ORDER BY random() LIMIT $1`,
    [asksOfPage],
  );
  const digests: Record<string, string> = {};
  for (const query of listsWithCursor) {
    const answer = await fetch(new URL(`/api/v1/payments?${query}`, system.endpoints.console));
    const { next } = (await answer.json()) as { next: string };
    digests[query] = Buffer.from(next, 'base64url').toString().split(' ')[2]!;
  }
  return { payments, cards, digests };
}

/** Every page that reads, by what it is asked for; the nth time for the nth sample. */
function pathsOf({ payments, cards, digests }: Samples): Record<string, (nth: number) => string> {
  const payment = (nth: number) => payments[nth % payments.length]!;
  const card = (nth: number) => cards[nth % cards.length]!;
  const find = (q: string) => `/payments/find?q=${encodeURIComponent(q)}`;
  const deep = (query: string) => (nth: number) => {
    const { id, createdAt } = payment(nth);
    const cursor = Buffer.from(`${createdAt.getTime()} ${id} ${digests[query]}`);
    return `/payments?${query}&after=${cursor.toString('base64url')}`;
  };
  const deepWebhooks = (nth: number) => {
    const { id, createdAt } = payment(nth);
    const place = createdAt.toISOString().replace('T', ' ').replace('Z', '+00');
    const event = deriveEventId(id as TxnId, 'payment.succeeded');
    return `/webhooks?after=${Buffer.from(`${event} 1 ${place}`).toString('base64url')}`;
  };
  const hour = (nth: number) => {
    const from = payment(nth).createdAt.toISOString().slice(0, 16);
    return `/payments?from=${from}`;
  };
  return {
    'the list': () => '/payments',
    'the list of a partner': () => '/payments?partner=acme',
    'of a partner without any': () => '/payments?partner=globex',
    'by a status that most have': () => '/payments?status=succeeded',
    'by a status that none has': () => '/payments?status=failed',
    'from a time on': hour,
    'until a time': (nth) => hour(nth).replace('from', 'until'),
    'by a reference that all have': () => '/payments?partner=acme&reference=bench',
    'by a reference that none has': () => '/payments?partner=acme&reference=nobody',
    'by an amount that all have': () => '/payments?partner=acme&currency=EUR&least=1',
    'by an amount that none has': () => '/payments?partner=acme&currency=EUR&least=90000',
    'deep in the list': deep(''),
    'deep in that of a partner': deep('partner=acme'),
    'deep in that of a status': deep('status=succeeded'),
    'found by its id': (nth) => find(payment(nth).id),
    'found by its key': (nth) => find(payment(nth).key),
    'found by its key and partner': (nth) => `${find(payment(nth).key)}&partner=acme`,
    'found by a reference that all have': () => find('bench'),
    'found by a provider’s id': (nth) => find(card(nth).intent),
    'found by a webhook-id': (nth) =>
      find(deriveEventId(payment(nth).id as TxnId, 'payment.succeeded')),
    'found by a refund’s id': (nth) => find(card(nth).refund),
    'not found': (nth) => find(`nobody-has-${nth}`),
    'a payment': (nth) => `/payments/${payment(nth).id}`,
    'a card with its refund': (nth) => `/payments/${card(nth).id}`,
    'a refund': (nth) => `/payments/${card(nth).refund}`,
    'raw forms': (nth) => `/payments/${payment(nth).id}/raw`,
    'the list for programs': () => '/api/v1/payments',
    'a payment for programs': (nth) => `/api/v1/payments/${payment(nth).id}`,
    webhooks: () => '/webhooks',
    'webhooks of a partner': () => '/webhooks?partner=acme',
    'webhooks given up': () => '/webhooks?state=failed',
    'deep in the webhooks': deepWebhooks,
    settlements: () => '/settlements?from=2020-01-01&until=2039-01-01',
    'settlements as CSV': () => '/settlements.csv?from=2020-01-01&until=2039-01-01',
    'dead letters': () => '/dead-letters',
    partners: () => '/partners',
    audit: () => '/audit',
    acts: () => '/acts',
    flow: () => '/',
  };
}

type Asking = { system: System; terminal: Terminal };

async function askPages({ system, terminal }: Asking, samples: Samples): Promise<PageTimes[]> {
  const pages: PageTimes[] = [];
  for (const [page, pathOf] of Object.entries(pathsOf(samples))) {
    terminal.progress(`asking for ${page}`);
    const times: number[] = [];
    for (let nth = 0; nth < asksOfPage; nth += 1) {
      system.signal.throwIfAborted();
      const path = pathOf(nth);
      const begun = performance.now();
      const answer = await fetch(new URL(path, system.endpoints.console), { redirect: 'manual' });
      await answer.arrayBuffer();
      times.push(performance.now() - begun);
      if (answer.status >= 400 && !(answer.status === 404 && page === 'not found')) {
        throw new Error(`${path} answers ${answer.status}`);
      }
    }
    times.sort((one, other) => one - other);
    const at = (share: number) => times[Math.ceil(times.length * share) - 1]!;
    pages.push({ page, path: pathOf(0), p50: at(0.5), p99: at(0.99) });
  }
  return pages;
}

async function askProcesses({ system, terminal }: Asking): Promise<Looked[]> {
  const looks: Looked[] = [];
  for (const { service, health } of system.endpoints.services) {
    terminal.progress(`asking ${service} for its figures`);
    const cost = async (path: string): Promise<AskCost> => {
      const ask = async () => (await fetch(new URL(path, health))).text();
      const { length: bytes } = await ask();
      const before = await cpuOf(system, service as ServiceName);
      const own = process.cpuUsage();
      for (let n = 0; n < asksOfProcess; n += 1) {
        if (path === figuresPath) await askFigures(health);
        else readFigures(await ask());
      }
      const { user, system: kernel } = process.cpuUsage(own);
      const used = (await cpuOf(system, service as ServiceName)) - before;
      const each = (micros: number) => micros / asksOfProcess;
      return { bytes, itsMicros: each(used), askersMicros: each(user + kernel) };
    };
    // Once before, so that both are asked of warm code.
    await cost('/metrics');
    await cost(figuresPath);
    const [whole, named] = [await cost('/metrics'), await cost(figuresPath)];
    looks.push({ service: service as ServiceName, whole, named });
  }
  return looks;
}

async function cpuOf(system: System, service: ServiceName): Promise<number> {
  return readSample(await readMetrics(system, service)).cpuMicros;
}

/** Has one browser watch the flow for a while. */
async function watchOnce({ system, terminal }: Asking): Promise<number> {
  terminal.progress('watching the flow');
  const gone = new AbortController();
  const signal = AbortSignal.any([system.signal, gone.signal]);
  const stream = await fetch(new URL('/flow/events', system.endpoints.console), { signal });
  const reading = stream.arrayBuffer().catch((error: unknown) => {
    if (!gone.signal.aborted) throw error;
  });
  const before = await cpuOf(system, 'console');
  await delay(watchedSeconds * 1_000, undefined, { signal: system.signal });
  const used = (await cpuOf(system, 'console')) - before;
  gone.abort();
  await reading;
  return used / (watchedSeconds / lookEverySeconds);
}

/** The figures for people. */
export function renderConsoleCosts(report: ConsoleReport): string[] {
  const { rig, size, pages, looks, lookMicros } = report;
  const right = 'right' as const;
  const ms = (value: number) => value.toFixed(1);
  const us = (value: number) => value.toFixed(0);
  return [
    `${size.payments} payments in every layer, ${size.ledgerRows} whose days were reaped; ` +
      `${rig.cpu}, ${rig.cores} cores; ${rig.commit}, load before ${rig.loadBefore}`,
    '',
    ...renderTable(
      [{ head: 'page' }, { head: 'p50, ms', align: right }, { head: 'p99, ms', align: right }],
      pages.map(({ page, p50, p99 }) => [page, ms(p50), ms(p99)]),
    ),
    '',
    ...renderTable(
      [
        { head: 'a process is asked' },
        ...['all, bytes', 'its µs', 'asker’s µs', 'figures, bytes', 'its µs', 'asker’s µs'].map(
          (head) => ({ head, align: right }),
        ),
      ],
      looks.map(({ service, whole, named }) => [
        service,
        ...[whole, named].flatMap((cost) => [
          String(cost.bytes),
          us(cost.itsMicros),
          us(cost.askersMicros),
        ]),
      ]),
    ),
    '',
    `a look at all of them, with one browser: ${us(lookMicros)} µs of the console, every ${lookEverySeconds} s`,
    report.ok
      ? style.good(`✔ every page within ${goalMs} ms, by its median`)
      : style.bad(`✘ a page took longer than ${goalMs} ms, by its median`),
  ];
}
