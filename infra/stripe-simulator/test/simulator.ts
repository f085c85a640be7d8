import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { stripeControl, testControlToken } from '@triplock/testing';
import { Stripe } from 'stripe';
import type { Dials } from '../engine.ts';
import { startSimulator } from '../simulator.ts';

/** A simulator for one test, and the ways to talk to it. */
export type ASimulator = {
  url: string;
  journal: string;
  /** The official package. It does not retry by itself, so that a test sees every answer. */
  stripe: Stripe;
  /** A raw request as curl sends it; `form` is the body, already encoded. */
  send(request: Raw): Promise<RawAnswer>;
  /** A control request; throws when it is refused. */
  control<Answer = unknown>(method: string, path: string, body?: unknown): Promise<Answer>;
};

type Raw = { method?: string; path: string; form?: string; headers?: Record<string, string> };
export type RawAnswer = {
  status: number;
  headers: Headers;
  text: string;
  /** The body, as far as raw tests look into it. */
  json: RawBody;
};

type RawBody = {
  id: string;
  object: string;
  status: string;
  has_more: boolean;
  next_page: string | null;
  data: { id: string; status: string }[];
  error: {
    type: string;
    message: string;
    code?: string;
    decline_code?: string;
    param?: string;
    payment_intent?: { id: string; status: string };
  };
};

export const testKey = 'sk_test_triplock';
export const testSecret = 'whsec_test';

const quiet: Dials = {
  latency: { medianMs: 0, p99Ms: 0 },
  searchLagMs: 0,
  settleAfterMs: 86_400_000,
  authorizedForMs: 604_800_000,
  webhooks: { url: null, secret: testSecret, order: 'any', copies: 1, paused: false },
};

/**
 * Starts a simulator in this process that ends with the test. Nothing settles by itself.
 */
export async function aSimulator(
  test: TestContext,
  wish: { dials?: Partial<Dials>; journal?: string } = {},
): Promise<ASimulator> {
  const folder = await mkdtemp(join(tmpdir(), 'triplock-stripe-'));
  const journal = wish.journal ?? join(folder, 'journal.jsonl');
  const simulator = await startSimulator({
    journal,
    host: '127.0.0.1',
    port: 0,
    seed: 1,
    controlToken: testControlToken,
    dials: { ...quiet, ...wish.dials },
    onBroken: (error) => {
      throw error;
    },
  });
  test.after(async () => {
    await simulator.close();
    await rm(folder, { recursive: true, force: true });
  });
  const { url } = simulator;
  return { url, journal, stripe: stripeAt(url), send: sendTo(url), control: stripeControl(url) };
}

/** The official package, pointed at a simulator. */
export function stripeAt(url: string, key = testKey): Stripe {
  const { hostname: host, port } = new URL(url);
  return new Stripe(key, { host, port, protocol: 'http', maxNetworkRetries: 0, telemetry: false });
}

function sendTo(url: string): ASimulator['send'] {
  return async ({ method = 'POST', path, form, headers }) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${testKey}`,
        ...(form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...headers,
      },
      ...(form !== undefined && { body: form }),
    });
    const text = await response.text();
    const json = JSON.parse(text) as RawBody;
    return { status: response.status, headers: response.headers, text, json };
  };
}
