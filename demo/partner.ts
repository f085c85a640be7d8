import { randomBytes } from 'node:crypto';
import type { FollowUpKind, PaymentKind, TransactionKind, TxnId } from '@triplock/payments';

/** An answer of the gateway, body as the bytes' text. */
export type Answer = {
  status: number;
  body: string;
  location: string | null;
  replayed: boolean;
  retryAfterSeconds: number | undefined;
  tookMs: number;
};

/** What a partner asks for: integer minor units and an ISO 4217 currency. */
export type PaymentBody = {
  amount: number;
  currency: string;
  reference?: string;
  payment_method?: string;
  capture_method?: 'manual';
};

/** What it asks back, or captures, of a payment; all that there is without an amount. */
export type FollowUpBody = { amount?: number; reason?: string };

/** A partner as the world sees one: it knows a URL and an API key. */
export type Partner = {
  id: string;
  /** POST /v1/payments, or of another kind of payment, under an idempotency key. */
  pay(key: string, body: PaymentBody, kind?: PaymentKind): Promise<Answer>;
  /** POST /v1/payments/{id}/refunds, or of another kind that follows it, under a key of its own. */
  refund(paymentId: string, key: string, body: FollowUpBody, kind?: FollowUpKind): Promise<Answer>;
  /** GET /v1/payments/{id}. */
  read(id: string): Promise<Answer>;
  /** GET /v1/keys/{kind}/{key}: what became of it. */
  askAbout(kind: TransactionKind, key: string): Promise<Answer>;
};

/** What is needed to act as a partner. Requests go to one gateway after the other. */
export type PartnerAccess = { id: string; apiKey: string; gateways: readonly string[] };

/** Far above the gateway's own 3 s: an answer that takes this long is a hang. */
const answerTimeoutMs = 30_000;

/** A partner that speaks HTTP, on connections that are kept open. */
export function openPartner({ id, apiKey, gateways }: PartnerAccess): Partner {
  let sent = 0;
  const ask = async (path: string, init: RequestInit = {}) => {
    const gateway = gateways[sent++ % gateways.length]!;
    const started = performance.now();
    const response = await fetch(`${gateway}${path}`, {
      ...init,
      headers: { ...init.headers, authorization: `Bearer ${apiKey}` },
      signal: AbortSignal.timeout(answerTimeoutMs),
    });
    return readAnswer(response, started);
  };
  const post = (path: string, key: string, body: object) =>
    ask(path, {
      method: 'POST',
      headers: { 'idempotency-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  return {
    id,
    pay: (key, body, kind = 'payment') => post(`/v1/${kind}s`, key, body),
    refund: (paymentId, key, body, kind = 'refund') =>
      post(`/v1/payments/${paymentId}/${kind}s`, key, body),
    read: (paymentId) => ask(`/v1/payments/${paymentId}`),
    askAbout: (kind, key) => ask(`/v1/keys/${kind}/${encodeURIComponent(key)}`),
  };
}

async function readAnswer(response: Response, started: number): Promise<Answer> {
  const retryAfter = response.headers.get('retry-after');
  return {
    status: response.status,
    body: await response.text(),
    location: response.headers.get('location'),
    replayed: response.headers.get('idempotency-replayed') === 'true',
    retryAfterSeconds: retryAfter === null ? undefined : Number(retryAfter),
    tookMs: performance.now() - started,
  };
}

/** A key that nobody used before; it says where it is from. */
export function newKey(from: string): string {
  return `${from}-${randomBytes(6).toString('hex')}`;
}

/** The id that a 202 carries. */
export function idOf(answer: Answer): TxnId {
  return (JSON.parse(answer.body) as { id: TxnId }).id;
}
