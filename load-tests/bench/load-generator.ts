import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { Client } from 'undici';
import type { LoadOrder, LoadReport } from './measurements.ts';

type Sending = {
  order: LoadOrder;
  endsAt: number;
  sent: number;
  latency: RecordableHistogram;
  others: Map<string, number>;
};

/**
 * Sends payments over keep-alive connections, one request at a time on each, until the time is
 * over. A closed loop: it finds out what a request costs, not how the system copes with a rate.
 *
 * One undici client for each connection: of what can send a fresh key with every request it takes
 * the least from the system's cores. Raw sockets would take less, and be an HTTP parser of our own.
 */
async function sendLoad(order: LoadOrder): Promise<LoadReport> {
  const { connections, targets, seconds } = order;
  const startedAt = performance.now();
  const cpu = process.cpuUsage();
  const sending: Sending = {
    order,
    endsAt: startedAt + seconds * 1_000,
    sent: 0,
    latency: createHistogram(),
    others: new Map(),
  };
  const clients = Array.from({ length: connections }, (_, n) => {
    return new Client(targets[n % targets.length]!, { pipelining: 1 });
  });
  await Promise.all(clients.map((client) => keepBusy(client, sending)));
  const tookMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  await Promise.all(clients.map((client) => client.close()));
  const { latency } = sending;
  return {
    accepted: latency.count,
    others: Object.fromEntries(sending.others),
    tookMs,
    latencyMs: {
      p50: latency.percentile(50) / 1_000,
      p99: latency.percentile(99) / 1_000,
      max: latency.count === 0 ? 0 : latency.max / 1_000,
    },
    cpuMicros: user + system,
  };
}

/** Sends the next payment when the one before it is answered. */
async function keepBusy(client: Client, sending: Sending): Promise<void> {
  while (performance.now() < sending.endsAt) {
    const sentAt = performance.now();
    const outcome = await send(client, sending);
    // Recorded in microseconds, because a histogram holds whole numbers from 1 on.
    if (outcome === '202') {
      sending.latency.record(Math.max(1, Math.round((performance.now() - sentAt) * 1_000)));
    } else sending.others.set(outcome, (sending.others.get(outcome) ?? 0) + 1);
  }
}

/** Resolves to the answer's status, or `error` when none came. */
function send(client: Client, sending: Sending): Promise<string> {
  const { run, apiKey, again } = sending.order;
  const number = again === undefined ? sending.sent : sending.sent % again;
  sending.sent += 1;
  const headers = [
    'authorization',
    `Bearer ${apiKey}`,
    'content-type',
    'application/json',
    'idempotency-key',
    keyOf({ run, number }),
  ];
  const body = bodyOf({ run, number });
  return new Promise((resolve) => {
    let status = 'error';
    client.dispatch(
      { method: 'POST', path: '/v1/payments', headers, body },
      {
        onRequestStart: () => undefined,
        onResponseStart: (_, statusCode) => void (status = String(statusCode)),
        onResponseData: () => undefined,
        onResponseEnd: () => resolve(status),
        onResponseError: () => resolve('error'),
      },
    );
  });
}

/** What makes a request unique: the run of the bench, and its number in it. */
export type RequestNumber = { run: string; number: number };

/** The idempotency key of a request. Nobody used it before: `run` is random. */
export function keyOf({ run, number }: RequestNumber): string {
  return `bench-${run}-${padded(number)}`;
}

/**
 * A book transfer as a shop would send it: every text that a payment may have, at a usual length.
 * All are equally long, so that no run has more to read than another.
 */
export function bodyOf({ run, number }: RequestNumber): string {
  const order = padded(number);
  return JSON.stringify({
    amount: 2_500,
    currency: 'EUR',
    reference: `order-${run}-${order}`,
    description: 'Two tickets for the evening of the 14th, row 7',
    metadata: { order_id: order, customer: 'c-104277', channel: 'web' },
  });
}

function padded(number: number): string {
  return String(number).padStart(8, '0');
}

/** The generator is a process of its own. */
export function openHelper(): Promise<typeof sendLoad> {
  return Promise.resolve(sendLoad);
}
