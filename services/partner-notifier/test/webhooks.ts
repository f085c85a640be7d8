import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Queryable } from '@triplock/postgres';
import { createTestDatabase } from '@triplock/testing';
import {
  openDeliveries,
  type AttemptRecord,
  type LeaseRequest,
  type Retention,
} from '../deliveries.ts';

export const anHour = 3_600_000;
const dayMs = 24 * anHour;
/** As long as webhooks are kept by default. */
export const retention: Retention = { deliveredMs: 30 * dayMs, undeliveredMs: 90 * dayMs };
/** An attempt that comes again. */
export const notDelivered: AttemptRecord = {
  outcome: 'refused',
  status: 500,
  error: 'answered 500',
  tookMs: 12.5,
  nextInMs: 5_000,
  giveUpAfterMs: 24 * anHour,
};
/** An attempt that succeeded. */
export const delivered: AttemptRecord = {
  ...notDelivered,
  outcome: 'delivered',
  status: 204,
  error: null,
};

/** Deliveries of partners with an open endpoint, as the notifier sees them. */
export async function queues(context: TestContext, lengths: Readonly<Record<string, number>>) {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  for (const [partner, length] of Object.entries(lengths)) {
    await setEndpoint(store.open(), partner);
    await insert(database, partner, length);
  }
  const deliveries = openDeliveries(database);
  const lease = (wish: Partial<LeaseRequest> = {}) =>
    deliveries.lease({
      owner: 'a',
      leaseMs: anHour,
      deliveriesMax: 1_000,
      perPartnerMax: 1_000,
      underWay: new Map(),
      ...wish,
    });
  return { database, owner: store.open(), deliveries, lease };
}

/** Gives a partner an open endpoint. */
export function setEndpoint(owner: Queryable, partner: string): Promise<unknown> {
  return owner.query(
    `WITH partner AS (
       INSERT INTO partners.partners (id) VALUES ($1) ON CONFLICT DO NOTHING
     )
     INSERT INTO partners.webhook_endpoints (partner_id, url, secrets)
     VALUES ($1, 'https://partner.example', '[{"id": "1", "key": "one", "box": ""}]')
     ON CONFLICT (partner_id) DO UPDATE SET disabled_at = NULL`,
    [partner],
  );
}

/** As after a 410 Gone. */
export const isGone = `UPDATE partners.webhook_endpoints SET disabled_at = now()`;

/** Makes deliveries that are to be sent. */
export function insert(database: Queryable, partner: string, rows: number): Promise<unknown> {
  return database.query(
    `INSERT INTO deliveries (event_id, partner_id, txn_id, body)
     SELECT gen_random_uuid(), $1, gen_random_uuid(), '{"type":"payment.failed"}' FROM generate_series(1, $2::integer)`,
    [partner, rows],
  );
}

/** A webhook as a partner's server got it. */
export type Received = { path: string; headers: IncomingHttpHeaders; body: string };

/** Answers one webhook. */
export type Answer = (response: ServerResponse, received: Received) => void;

/** A partner's server in a test: it keeps what came and answers as it is set. */
export type Receiver = {
  url: string;
  received: Received[];
  /** Answers from now on; 204 by default. */
  answerWith(answer: Answer): void;
};

/** Starts a receiver on a free port of 127.0.0.1 and stops it after the test. */
export async function aReceiver(test: { after(fn: () => void): void }): Promise<Receiver> {
  const received: Received[] = [];
  let answer: Answer = (response) => void response.writeHead(204).end();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString('utf8');
      const one = { path: request.url!, headers: request.headers, body };
      received.push(one);
      answer(response, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    received,
    answerWith: (next) => void (answer = next),
  };
}
