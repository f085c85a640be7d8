import {
  deriveEventId,
  deriveKeyConflictId,
  deriveTxnId,
  fingerprint,
  hasCardNumber,
  type Fingerprint,
  type IdempotencyKey,
  type JsonObject,
  type PartnerId,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import type { Answered, HistoryEvent, HistoryHead } from '../history.ts';

/** A request of a partner in the model; what follows a payment names that one's key. */
export type Wish = {
  partner: 'acme' | 'globex';
  kind: TransactionKind;
  key: string;
  body: JsonObject;
  /** The payment that it follows. */
  of?: string;
};

/** What becomes of a request that has claimed its key. */
export type Fate =
  /** It is durable, and its answer kept. */
  | 'accepted'
  /** The same, and the claim store did not take the answer. */
  | 'not-kept'
  /** Kafka's reply was lost, the claim is released: 503. */
  | 'produced-unknown'
  | 'unproduced'
  /** The gateway dies before or after Kafka has it; the claim is held until its lease ends. */
  | 'dies-before'
  | 'dies-after';

type Reply = Omit<Answered, 'what' | 'at' | 'n'> | 'none';
type Request = Wish & { n: number; id: TxnId; path: string; fingerprint: Fingerprint };
type Claim = { fingerprint: Fingerprint; owner: number; until: number; kept?: string };
type Transaction = { of: Request; state: 'pending' | 'succeeded' | 'failed'; fields: JsonObject };
type Webhook = { partner: string; id: string; body: string };

const began = Date.UTC(2026, 0, 2, 3, 4, 5);
const leaseMs = 30_000;
const time = (at: number) => new Date(began + at).toISOString();

/**
 * A system that keeps its contract, as small as one can be: claims with leases, a ledger that knows
 * an id once, numbered events; and the history that its partners write. Every step is one moment,
 * so that whoever calls them in another order gets another true history.
 */
export class ModelSystem {
  readonly events: HistoryEvent[] = [];
  readonly ledger = new Map<TxnId, Transaction>();
  readonly requests: Request[] = [];
  readonly replies = new Map<number, Reply>();
  /** Requests that hold a claim and go on with it. */
  readonly working = new Set<number>();
  readonly webhooks: Webhook[] = [];
  readonly #claims = new Map<TxnId, Claim>();
  readonly #numbered = new Map<TxnId, number>();
  readonly #ended = new Set<number>();
  #at = 0;
  #asked = 0;

  #write(event: Record<string, unknown>): void {
    this.#at += 1;
    this.events.push({ ...event, at: this.#at } as unknown as HistoryEvent);
  }

  ask(wish: Wish): number {
    this.#asked += 1;
    const { partner, kind, key, body, of } = wish;
    const id = deriveTxnId(kind, partner as PartnerId, key as IdempotencyKey);
    const path =
      kind === 'payment' ? '/v1/payments' : `/v1/payments/${paymentId(partner, of!)}/${kind}s`;
    const n = this.#asked;
    const sent = { method: 'POST', path, key, body: JSON.stringify(body) };
    this.#write({ what: 'asked', n, by: `${partner}-1`, partner, kind, ...sent });
    this.requests[n] = {
      ...wish,
      n,
      id,
      path,
      fingerprint: fingerprint({ method: 'POST', path, body }),
    };
    return n;
  }

  /** The gateway looks at the claim. */
  reach(n: number): void {
    const request = this.requests[n]!;
    const { id, partner, of } = request;
    const { reference } = request.body;
    const isCard = typeof reference === 'string' && hasCardNumber(reference);
    if (isCard || Number(request.body['amount'] ?? 1) < 1) return this.#reply(n, problem(400));
    if (of !== undefined && !this.ledger.has(paymentId(partner, of)))
      return this.#reply(n, problem(404));
    const posted = this.ledger.get(id);
    const claim =
      this.#claims.get(id) ??
      (posted && { ...posted.of, owner: 0, until: 0, kept: acceptedBody(posted.of) });
    if (claim !== undefined && claim.fingerprint !== request.fingerprint) {
      return this.#reply(n, problem(422));
    }
    if (claim?.kept !== undefined)
      return this.#reply(n, { status: 202, replayed: true, body: claim.kept });
    if (claim !== undefined && claim.until > this.#at)
      return this.#reply(n, { ...problem(409), retryAfter: 1 });
    this.#claims.set(id, { fingerprint: request.fingerprint, owner: n, until: this.#at + leaseMs });
    this.working.add(n);
  }

  /** The gateway goes on with what it claimed. */
  work(n: number, fate: Fate): void {
    const request = this.requests[n]!;
    this.working.delete(n);
    if (fate !== 'unproduced' && fate !== 'dies-before') this.#produce(request);
    const claim = this.#claims.get(request.id);
    const own = claim?.owner === n ? claim : undefined;
    switch (fate) {
      case 'accepted':
      case 'not-kept': {
        const body = acceptedBody(request);
        if (own !== undefined && fate === 'accepted') own.kept = body;
        return this.#reply(n, { status: 202, body });
      }
      case 'produced-unknown':
      case 'unproduced':
        if (own !== undefined) own.until = this.#at;
        return this.#reply(n, { ...problem(503), retryAfter: 1 });
      case 'dies-before':
      case 'dies-after':
        return this.#reply(n, 'none');
      default:
        return fate satisfies never;
    }
  }

  /** The ledger takes an id once; another body under it loses its key. */
  #produce(request: Request): void {
    const { id, kind, body, partner, of, fingerprint: own } = request;
    const posted = this.ledger.get(id);
    const payment = of !== undefined && { payment: paymentId(partner, of) };
    const data = { id, object: kind, ...payment };
    if (posted === undefined) {
      const fields = {
        ...data,
        status: 'pending',
        ...body,
        created_at: time(this.#at),
        settled_at: null,
        ...(kind === 'payment' && { amount_refunded: 0 }),
      };
      this.ledger.set(id, { of: request, state: 'pending', fields });
    } else if (posted.of.fingerprint !== own) {
      const lost = { type: 'payment.key_conflict', timestamp: time(this.#at) };
      const loser = { ...data, fingerprint: own, ...body };
      const hook = { ...lost, data: loser };
      const conflict = { partner, id: deriveKeyConflictId(id, own), body: JSON.stringify(hook) };
      // The outbox has one of each.
      if (!this.webhooks.some((each) => each.id === conflict.id)) this.webhooks.push(conflict);
    }
  }

  /** The worker finishes a transaction, a refund after its payment; false when it has to wait. */
  settle(id: TxnId): boolean {
    const transaction = this.ledger.get(id)!;
    const { of: request, fields } = transaction;
    if (transaction.state !== 'pending') return false;
    const payment = this.ledger.get(request.of ? paymentId(request.partner, request.of) : id)!;
    if (request.kind === 'refund' && payment.state === 'pending') return false;
    const left = Number(payment.fields['amount']) - Number(payment.fields['amount_refunded']);
    const amount = Number(fields['amount'] ?? left);
    const fits = payment.state === 'succeeded' && amount >= 1 && amount <= left;
    const succeeds = request.kind === 'refund' ? fits : !request.body['payment_method'];
    transaction.state = succeeds ? 'succeeded' : 'failed';
    transaction.fields = {
      ...fields,
      status: transaction.state,
      settled_at: time(this.#at),
      ...(request.kind === 'refund' && fits && { amount, currency: payment.fields['currency'] }),
      ...(!succeeds && { failure: { code: 'declined', message: 'No.' } }),
    };
    if (request.kind === 'refund' && succeeds) {
      const refunded = Number(payment.fields['amount_refunded']) + amount;
      payment.fields = { ...payment.fields, amount_refunded: refunded };
    }
    const type = `${request.kind}.${transaction.state}` as const;
    const sequence = (this.#numbered.get(payment.of.id) ?? 0) + 1;
    this.#numbered.set(payment.of.id, sequence);
    const hook = { type, timestamp: time(this.#at), sequence, data: transaction.fields };
    const { partner } = request;
    this.webhooks.push({ partner, id: deriveEventId(id, type), body: JSON.stringify(hook) });
    return true;
  }

  /** Whom the client gave up is answered for nobody. */
  #reply(n: number, said: Reply): void {
    if (!this.#ended.has(n)) this.replies.set(n, said);
  }

  /** The client gets what the gateway has replied; nothing yet is no answer at all. */
  answer(n: number): void {
    const said = this.replies.get(n) ?? 'none';
    this.replies.delete(n);
    this.#ended.add(n);
    this.#write(
      said === 'none' ? { what: 'unanswered', n, why: 'reset' } : { what: 'answered', n, ...said },
    );
  }

  /** A read is sent; `reach` of it is {@link look}. */
  askRead(partner: string, id: TxnId, kind: Wish['kind']): number {
    this.#asked += 1;
    const path = `/v1/${kind}s/${id}`;
    this.#write({
      what: 'asked',
      n: this.#asked,
      by: 'reader',
      partner,
      kind: 'read',
      method: 'GET',
      path,
    });
    return this.#asked;
  }

  look(n: number, partner: string, id: TxnId): void {
    const found = this.ledger.get(id);
    const own = found !== undefined && found.of.partner === partner;
    this.#reply(n, own ? { status: 200, body: JSON.stringify(found.fields) } : problem(404));
  }

  /** All at once: a request that meets nobody. */
  send(wish: Wish, fate: Fate = 'accepted'): number {
    const n = this.ask(wish);
    this.reach(n);
    if (this.working.has(n)) this.work(n, fate);
    this.answer(n);
    return n;
  }

  read(
    partner: string,
    { partner: owner, kind, key }: Pick<Wish, 'partner' | 'kind' | 'key'>,
  ): void {
    const id = deriveTxnId(kind, owner as PartnerId, key as IdempotencyKey);
    const n = this.askRead(partner, id, kind);
    this.look(n, partner, id);
    this.answer(n);
  }

  deliver({ partner, id, body }: Webhook): void {
    this.#write({ what: 'webhook', partner, id, verified: true, body });
  }

  fault(name: string): void {
    this.#write({ what: 'fault', name });
  }

  forgetClaims(): void {
    this.#claims.clear();
  }

  pass(ms: number): void {
    this.#at += ms;
  }

  over(): void {
    this.#write({ what: 'over', delivered: true, complete: true });
  }
}

function paymentId(partner: string, key: string): TxnId {
  return deriveTxnId('payment', partner as PartnerId, key as IdempotencyKey);
}

function acceptedBody({ id, kind, partner, of, body }: Request): string {
  const fields = { id, object: kind, ...(of !== undefined && { payment: paymentId(partner, of) }) };
  return JSON.stringify({ ...fields, status: 'pending', ...body });
}

function problem(status: number): Omit<Answered, 'what' | 'at' | 'n'> {
  return { status, body: JSON.stringify({ status }) };
}

/** The file that these events make. */
export function fileOf(events: readonly HistoryEvent[]): string {
  const head: HistoryHead = { history: 1, began: new Date(began).toISOString(), system: 'a model' };
  return [head, ...events].map((each) => `${JSON.stringify(each)}\n`).join('');
}
