import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { WakeDue } from '@triplock/ledger';
import type { AcceptedPayment, AcceptedFollowUp, Payment } from '@triplock/payments';
import { providerSettings, reportSettings } from '@triplock/providers';
import { createLogger, readSettings, runLoop, type Loop } from '@triplock/runtime';
import {
  aPayment,
  eventually,
  freePort,
  startService,
  testNamespace,
  type TestStripe,
} from '@triplock/testing';
import { serveReports } from '../provider-reports.ts';
import type { Resolvers } from '../resolver.ts';
import type { Worker } from '../worker.ts';
import { aPipeline, aProvider, recordOf, refundRecordOf } from './pipeline.ts';

/** What tests of refunds share, at the simulator that a file has started by then. */
export function refundingAt(stripe: () => TestStripe) {
  /** A worker that gives back at a simulator which has forgotten what the tests before did. */
  async function aRefunding(context: TestContext) {
    await stripe().control('POST', '/reset');
    const pipeline = await aPipeline(context);
    const provider = aProvider(stripe());
    const work = (handOverMs = 10_000) => pipeline.work({ provider, handOverMs });
    const worker = work();
    /** Both append together and in order, so that records come in one batch or a few. */
    const pay = (...payments: AcceptedPayment[]) =>
      Promise.all(payments.map((each) => pipeline.append(recordOf(each))));
    const refund = (...refunds: AcceptedFollowUp[]) =>
      Promise.all(refunds.map((each) => pipeline.append(refundRecordOf(each))));
    /** What a payment's refunds came to, how often each. */
    const cameTo = async ({ txnId }: AcceptedPayment) => {
      const rows = await pipeline.owner.query<{ outcome: string; count: number }>(
        `SELECT coalesce(failure_code, state) AS outcome, count(*)::int AS count
         FROM ledger.transactions WHERE payment_id = $1 GROUP BY 1 ORDER BY 1`,
        [txnId],
      );
      return Object.fromEntries(rows.map(({ outcome, count }) => [outcome, count]));
    };
    /** What was given back of a payment by the ledger, and what it still holds for refunds. */
    const givenBack = async ({ txnId }: AcceptedPayment) => {
      const [row] = await pipeline.owner.query<{ refunded: bigint; reserved: bigint }>(
        `SELECT amount_refunded AS refunded, refund_reserved AS reserved
         FROM ledger.transactions WHERE txn_id = $1`,
        [txnId],
      );
      return row;
    };
    /** Passes of the resolver, until what it looks after came to this. */
    const untilItCameTo = (payment: AcceptedPayment, wanted: Record<string, number>) =>
      eventually(async () => {
        await worker.resolve();
        assert.deepEqual(await cameTo(payment), wanted);
        return true;
      });
    const letTimePass = () =>
      pipeline.owner.query(`
        UPDATE ledger.transactions SET due_at = now(), version = version + 1
        WHERE state = 'pending'`);
    /**
     * What a payment is to the provider, once it is so far, succeeded by default. On a busy machine
     * the provider's answer comes too late to who charged it, and the resolver goes on.
     */
    const intentOf = (
      { txnId }: AcceptedPayment,
      isSoFar: (found: Payment) => boolean = ({ state }) => state === 'succeeded',
    ) =>
      eventually(async () => {
        const found = (await worker.ledger.find(txnId))!;
        if (found.provider !== undefined && isSoFar(found)) return found.provider.intentId;
        await letTimePass();
        await worker.resolve();
        return false;
      });
    const looking = { cameTo, givenBack, untilItCameTo, intentOf };
    return { ...pipeline, ...looking, work, worker, pay, refund, letTimePass };
  }

  /** What the provider gave back, how often and how much. */
  async function providerGaveBack() {
    type Audit = { refunds: Record<string, { count: number; amount: number }> };
    const { refunds } = await stripe().control<Audit>('GET', '/audit');
    return refunds['eur'] ?? { count: 0, amount: 0 };
  }

  /** A refund that this worker did not ask for. */
  async function refundAtProvider(parameters: Record<string, string>): Promise<void> {
    const { url, apiKey } = stripe();
    const answer = await fetch(`${url}/v1/refunds`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}` },
      body: new URLSearchParams(parameters),
    });
    assert.equal(answer.status, 200, await answer.text());
  }

  return { aRefunding, providerGaveBack, refundAtProvider };
}

/** The secret of the simulator's webhooks. */
const secret = 'whsec_test_secret';
const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** Serves Stripe's webhooks on a port of its own, which it returns. */
export async function serve(context: TestContext, worker: Worker, resolver: Loop): Promise<number> {
  const port = await freePort();
  const given = {
    STRIPE_API_KEY: 'sk_test_any',
    STRIPE_WEBHOOK_SECRETS: `${secret},whsec_before_it`,
  };
  const settings = readSettings(given, { ...providerSettings, ...reportSettings });
  const resolvers: Resolvers = { wake: () => resolver.wake(), stop: () => resolver.stop() };
  const server = await serveReports(worker, { host: '127.0.0.1', port, settings, resolvers });
  context.after(() => server.close());
  return port;
}

/**
 * Workers that the simulator of a file reports to, each with a resolver that runs only when woken.
 */
export function receivingAt(stripe: () => TestStripe) {
  return aReceiver;

  async function aReceiver(context: TestContext, wish: { wakeDue?: WakeDue } = {}) {
    await stripe().control('POST', '/reset');
    const pipeline = await aPipeline(context);
    // A batch that waits for the provider is committed when its row waits for somebody else.
    const worker = pipeline.work({ provider: aProvider(stripe(), { timeoutMs: 10_000 }) });
    const resolver = runLoop(worker.resolverOnce, { name: 'resolver', idleMs: 3_600_000, logger });
    context.after(async () => {
      await resolver.stop();
      await worker.drain();
    });
    const { metrics, ledger } = worker;
    const port = await serve(context, { ...worker.worker, ...wish }, resolver);
    const url = `http://127.0.0.1:${port}/stripe/webhooks`;
    const settings = { url, secret, order: 'any', copies: 1, paused: false };
    const configure = (changes: object) =>
      stripe().control('PUT', '/webhooks', { ...settings, ...changes });
    context.after(() => stripe().control('PUT', '/webhooks', { ...settings, url: null }));
    await configure({});

    /** A payment whose charge waits for somebody: its row is pending and long not due. */
    const waiting = async (paymentMethod: string, currency = 'EUR') => {
      const payment = aPayment({ amount: 1_250n, currency, paymentMethod });
      await pipeline.append(recordOf(payment));
      await worker.allCommitted();
      const row = await ledger.find(payment.txnId);
      assert.equal(row?.state, 'pending');
      return { payment, intentId: row.provider!.intentId };
    };
    const becomes = (txnId: Parameters<typeof ledger.find>[0], state: string) =>
      eventually(async () => {
        const row = (await ledger.find(txnId)) ?? (await worker.followUps.find(txnId));
        return row?.state === state && row;
      });
    const counted = () => metrics.providerEvents.counted();
    return { ...pipeline, ...worker, url, configure, waiting, becomes, counted };
  }
}

/** A webhook as Stripe would send it, or nearly. */
export function aWebhook(
  intentId: string,
  wish: { by?: string; ageSeconds?: number; more?: object; body?: string } = {},
) {
  const data = { object: { id: intentId, status: 'succeeded' } };
  const event = { id: 'evt_1', object: 'event', type: 'payment_intent.succeeded', data };
  const body = wish.body ?? JSON.stringify({ ...event, livemode: false, ...wish.more });
  const at = Math.floor(Date.now() / 1_000) - (wish.ageSeconds ?? 0);
  const mac = createHmac('sha256', wish.by ?? secret)
    .update(`${at}.${body}`)
    .digest('hex');
  return { method: 'POST', body, headers: { 'stripe-signature': `t=${at},v1=${mac}` } };
}

/** Starts a worker that is a process of its own. */
export const start = (context: TestContext, settings: Readonly<Record<string, string>>) =>
  startService(context, new URL('../main.ts', import.meta.url), settings);

/** Settings of a worker that charges at `stripe`, and begins the topic anew. */
export const anew = async (settings: Readonly<Record<string, string>>, stripe: TestStripe) => ({
  ...settings,
  LEDGER_GROUP: testNamespace('worker'),
  ADMIN_PORT: String(await freePort()),
  STRIPE_API_KEY: stripe.apiKey,
  STRIPE_API_URL: stripe.url,
});

export const within2min = (what: string) => ({ withinMs: 120_000, what });

/** Where a worker may die over what is authorised first, and then captured or cancelled. */
export const pointsOfHolds = [
  'worker.authorized',
  'worker.reserved',
  'worker.captured',
  'worker.settled',
  'worker.cancelled',
] as const;
