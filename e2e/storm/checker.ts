/*
 * Judges a storm by what was asked and answered, by the rows of the ledger, by the provider's own
 * lists, and by every webhook that came. It stands on none of the code that it judges: it is given
 * what was seen, as JSON, and knows only what partners are promised.
 */

/** Everything that was asked under one key, and every answer to it. */
export type AskedKey = {
  partner: string;
  kind: 'payment' | 'refund' | 'capture' | 'cancellation';
  key: string;
  /** Of what follows a payment, its id. */
  payment?: string;
  answers: readonly { status: number; text: string }[];
};

/** A row of the ledger. Amounts are minor units. */
export type Row = {
  id: string;
  kind: AskedKey['kind'];
  partner: string;
  key: string;
  payment: string | null;
  state: string;
  amount: number | null;
  currency: string | null;
  amount_refunded: number;
  amount_captured: number | null;
  failure_code: string | null;
  intent: string | null;
  charge: string | null;
};

/** An object of the provider's, as its API lists it. */
export type Listed = {
  id: string;
  amount: number;
  status: string;
  currency: string;
  metadata?: Readonly<Record<string, string>> | null;
  payment_intent?: string | null;
  captured?: boolean;
  amount_captured?: number;
  reason?: string;
};

/** A webhook as it arrived. */
export type Arrived = { partner: string; id: string; verified: boolean; body: string };

/** An event as it stood in its partner's feed; `body` without its id and position. */
export type Fed = { partner: string; id: string; position: string; body: string };

/** What was seen of a storm once nothing was in flight any more. */
export type Evidence = {
  asked: readonly AskedKey[];
  rows: readonly Row[];
  charges: readonly Listed[];
  refunds: readonly Listed[];
  disputes: readonly Listed[];
  webhooks: readonly Arrived[];
  /** As partners read them, in that order. */
  fed: readonly Fed[];
  /** What `GET` shows at the end, by id. */
  shown: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
};

/** What is wrong, a sentence each, with the ids in it. */
export type Findings = string[];

/** Judges all of it; nothing is wrong where the list is empty. */
export function judgeStorm(evidence: Evidence): Findings {
  const found: Findings = [];
  const rows = new Map(evidence.rows.map((row) => [row.id, row]));
  judgeAnswers(evidence, rows, found);
  judgeCharges(evidence, rows, found);
  judgeRefunds(evidence, rows, found);
  judgeClosings(evidence, found);
  judgeWebhooks(evidence, rows, found);
  judgeFeed(evidence, rows, found);
  return found;
}

type Rows = ReadonlyMap<string, Row>;

const keyOf = ({ partner, kind, key }: Pick<Row, 'partner' | 'kind' | 'key'>) =>
  `${partner} ${kind} ${key}`;

/**
 * Each accepted key is one row that is final, and one that was refused is none; every row was asked
 * for; one key has one answer.
 */
function judgeAnswers({ asked, rows, shown }: Evidence, byId: Rows, found: Findings): void {
  const wanted = new Map<string, AskedKey>();
  for (const each of asked) {
    const name = keyOf(each);
    wanted.set(name, each);
    const accepted = each.answers.filter(({ status }) => status === 202);
    const texts = new Set(accepted.map(({ text }) => text));
    if (texts.size > 1) found.push(`${name} was answered 202 by ${texts.size} bodies`);
    for (const text of texts) {
      const { id } = JSON.parse(text) as { id: string };
      const row = byId.get(id);
      if (row === undefined) found.push(`${name} got a 202 and ${id} is not in the ledger`);
      else if (keyOf(row) !== name) found.push(`${id} is of ${keyOf(row)} and not of ${name}`);
    }
  }
  for (const row of rows) {
    const name = keyOf(row);
    const answers = wanted.get(name)?.answers.map(({ status }) => status);
    if (answers === undefined) found.push(`nobody asked for ${row.id}, ${name}`);
    if (answers?.includes(400)) found.push(`${name} was refused and is ${row.id}`);
    if (row.state === 'pending') found.push(`${row.id}, ${name}, is not final`);
    const status = shown.get(row.id)?.['status'];
    if (status !== row.state)
      found.push(`${row.id} is ${row.state} and shown as ${String(status)}`);
  }
  const keys = Map.groupBy(rows, keyOf);
  for (const [name, of] of keys) if (of.length > 1) found.push(`${name} has ${of.length} rows`);
}

/** A card is charged once, for what its row says, and only where that says so. */
function judgeCharges({ rows, charges }: Evidence, byId: Rows, found: Findings): void {
  const taken = charges.filter((each) => each.status === 'succeeded' && each.captured !== false);
  const ids = new Map(rows.flatMap(({ id, intent }) => (intent === null ? [] : [[intent, id]])));
  const byPayment = Map.groupBy(taken, ({ metadata, payment_intent: intent }) => {
    return metadata?.['txn_id'] ?? ids.get(intent ?? '') ?? '';
  });
  for (const row of rows) {
    if (row.kind !== 'payment') continue;
    const of = byPayment.get(row.id) ?? [];
    const isCard = row.intent !== null;
    const isTaken = isCard && ['succeeded', 'captured'].includes(row.state);
    if (of.length !== (isTaken ? 1 : 0)) {
      found.push(`payment ${row.id} is ${row.state} and was charged ${of.length} times`);
    }
    const expected = row.state === 'captured' ? row.amount_captured : row.amount;
    for (const { id, amount, amount_captured: captured = amount, currency } of of) {
      const same = captured === expected && currency.toUpperCase() === row.currency;
      if (!same) found.push(`payment ${row.id} of ${expected} was charged ${captured} by ${id}`);
      if (row.charge !== id) found.push(`payment ${row.id} names ${row.charge} and not ${id}`);
    }
  }
  for (const [id, of] of byPayment) {
    if (!byId.has(id)) found.push(`charge ${of[0]!.id} is of ${id}, which is not in the ledger`);
  }
}

/**
 * What a refund says is what the provider gave back under its id, and no payment gives too much.
 */
function judgeRefunds({ rows, refunds }: Evidence, byId: Rows, found: Findings): void {
  const given = refunds.filter(({ status }) => !['failed', 'canceled'].includes(status));
  const ours = Map.groupBy(given, ({ metadata }) => metadata?.['txn_id'] ?? '');
  ours.delete('');
  for (const row of rows) {
    if (row.kind !== 'refund') continue;
    const payment = byId.get(row.payment ?? '');
    const of = ours.get(row.id) ?? [];
    const isCard = payment !== undefined && payment.intent !== null;
    const isGiven = row.state === 'succeeded' && isCard;
    if (of.length !== (isGiven ? 1 : 0)) {
      found.push(`refund ${row.id} is ${row.state} and was given back ${of.length} times`);
    }
    for (const { id, amount, payment_intent: intent } of of) {
      if (amount !== row.amount)
        found.push(`refund ${row.id} of ${row.amount} gave ${amount}: ${id}`);
      if (intent !== payment?.intent)
        found.push(`refund ${row.id} gave back another charge: ${id}`);
    }
  }
  for (const [id, of] of ours) {
    if (!byId.has(id)) found.push(`the provider gave back ${of[0]!.id} of ${id}, which is no row`);
  }
  const succeeded = rows.filter(({ kind, state }) => kind === 'refund' && state === 'succeeded');
  const byPayment = Map.groupBy(succeeded, ({ payment }) => payment);
  for (const row of rows) {
    if (row.kind !== 'payment') continue;
    const sum = (byPayment.get(row.id) ?? []).reduce((all, { amount }) => all + (amount ?? 0), 0);
    const most = row.amount_captured ?? row.amount ?? 0;
    if (sum > most) found.push(`payment ${row.id} of ${most} gave back ${sum}`);
    if (sum !== row.amount_refunded) {
      found.push(`payment ${row.id} says ${row.amount_refunded} and its refunds ${sum}`);
    }
  }
}

/** An authorised payment is ended once: captured by one capture, or let go by one cancellation. */
function judgeClosings({ rows }: Evidence, found: Findings): void {
  const closings = rows.filter(({ kind, state }) => isClosing(kind) && state === 'succeeded');
  const byPayment = Map.groupBy(closings, ({ payment }) => payment);
  for (const row of rows) {
    if (row.kind !== 'payment') continue;
    const of = byPayment.get(row.id) ?? [];
    const kinds = of.map(({ kind }) => kind).join(' and ');
    if (row.state === 'captured') {
      const isOne = of.length === 1 && kinds === 'capture' && of[0]!.amount === row.amount_captured;
      if (!isOne) found.push(`payment ${row.id} was captured, and what succeeded is [${kinds}]`);
    } else if (of.length > (row.state === 'canceled' ? 1 : 0) || kinds.includes('capture')) {
      found.push(`payment ${row.id} is ${row.state}, and what succeeded is [${kinds}]`);
    }
  }
}

const isClosing = (kind: string) => kind === 'capture' || kind === 'cancellation';

type Told = {
  type: string;
  sequence?: number;
  data: Readonly<Record<string, unknown>> & { id: string; payment?: string };
};

/** What changes after an event, or is of the event alone. */
const ofItsTime = new Set(['amount_refunded', 'status', 'dispute', 'next_action', 'failure']);

/**
 * Each webhook says the same on every arrival and what an answer says now; no transaction has two
 * ends; and a payment's are numbered 1 to n.
 */
function judgeWebhooks(evidence: Evidence, byId: Rows, found: Findings): void {
  const byEvent = Map.groupBy(evidence.webhooks, ({ id }) => id);
  const told: (Told & { event: string })[] = [];
  for (const [event, copies] of byEvent) {
    const bodies = new Set(copies.map(({ body }) => body));
    if (bodies.size > 1) {
      found.push(`webhook ${event} came with ${bodies.size} bodies: ${[...bodies].join(' and ')}`);
    }
    const odd = copies.find(({ verified }) => !verified);
    if (odd !== undefined) found.push(`webhook ${event} was not signed as it should be`);
    for (const body of bodies) {
      const each = JSON.parse(body) as Told;
      const row = byId.get(each.data.id);
      if (row === undefined) continue;
      if (copies.some(({ partner }) => partner !== row.partner)) {
        found.push(`webhook ${event} went to another partner than ${row.partner}`);
      }
      told.push({ ...each, event });
    }
  }
  judgeEnds(evidence, told, found);
  judgeNumbers(told, found);
  judgeDisputes(evidence, told, found);
}

/**
 * What a partner read of its feed is what its webhooks told, word for word, each payment in order.
 * Only what was read before a restore may have come again.
 */
function judgeFeed({ webhooks, fed }: Evidence, byId: Rows, found: Findings): void {
  const told = (body: string) => JSON.parse(body) as Told;
  const ofRun = ({ body }: { body: string }) => byId.has(told(body).data.id);
  const sent = new Map(webhooks.filter(ofRun).map(({ id, body }) => [id, body]));
  const events = Map.groupBy(fed.filter(ofRun), ({ id }) => id);
  for (const id of sent.keys()) {
    if (!events.has(id)) found.push(`webhook ${id} never stood in the feed`);
  }
  const lastOf = new Map<string, number>();
  for (const [id, copies] of events) {
    const { sequence, data } = told(copies[0]!.body);
    for (const { partner, body } of copies) {
      if (body !== sent.get(id)) found.push(`event ${id} was ${body}, its webhook ${sent.get(id)}`);
      if (partner !== byId.get(data.id)!.partner) found.push(`event ${id} was shown to ${partner}`);
    }
    if (sequence === undefined) continue;
    const payment = byId.get(data.id)!.payment ?? data.id;
    const last = lastOf.get(payment) ?? 0;
    if (sequence < last) found.push(`event ${id} of ${payment} was read behind number ${last}`);
    lastOf.set(payment, sequence);
  }
}

/** Events that came more than once to a reader who keeps where it is. */
export function fedTwice(fed: readonly Fed[]): string[] {
  const copies = Map.groupBy(fed, ({ partner, id }) => `${partner} ${id}`);
  return [...copies].flatMap(([name, { length }]) => (length > 1 ? [name] : []));
}

const endings = /\.(succeeded|captured|failed|canceled)$/;

function judgeEnds({ rows, shown }: Evidence, told: readonly Told[], found: Findings): void {
  const byId = Map.groupBy(told, ({ data }) => data.id);
  for (const row of rows) {
    const of = byId.get(row.id) ?? [];
    const ends = [...new Set(of.flatMap(({ type }) => (endings.test(type) ? [type] : [])))];
    const expected = `${row.kind}.${row.state}`;
    if (ends.join() !== expected)
      found.push(`${row.id} is ${expected} and was told ${ends.join()}`);
    const now = shown.get(row.id) ?? {};
    for (const { type, data } of of) {
      for (const [name, value] of Object.entries(data)) {
        const isEnd = type === expected && name !== 'amount_refunded';
        // A step before the end shows what was known then.
        const isFixed = isEnd || (row.kind === 'payment' && ['amount', 'currency'].includes(name));
        if (!isFixed && (ofItsTime.has(name) || type !== expected)) continue;
        const [was, is] = [JSON.stringify(value), JSON.stringify(now[name])];
        if (was !== is) found.push(`${type} of ${row.id} said ${name} ${was}, and it is ${is}`);
      }
    }
  }
}

function judgeNumbers(told: readonly (Told & { event: string })[], found: Findings): void {
  const byPayment = Map.groupBy(told, ({ data }) => data.payment ?? data.id);
  for (const [payment, of] of byPayment) {
    const numbers = new Map<string, number>();
    for (const { event, sequence } of of) {
      if (sequence !== undefined) numbers.set(event, sequence);
    }
    const sorted = [...numbers.values()].sort((one, other) => one - other);
    const isWhole = sorted.every((number, nth) => number === nth + 1);
    if (!isWhole) found.push(`the events of payment ${payment} are numbered ${sorted.join(', ')}`);
  }
}

/** Each dispute of a payment is told once, with what the bank wants. */
function judgeDisputes(
  { rows, disputes }: Evidence,
  told: readonly (Told & { event: string })[],
  found: Findings,
): void {
  const byIntent = new Map(rows.map((row) => [row.intent, row]));
  for (const { id, amount, reason, payment_intent: intent } of disputes) {
    const row = byIntent.get(intent ?? '');
    if (row === undefined) continue;
    const of = told.filter(({ type, data }) => {
      const { dispute } = data as { dispute?: { id?: string } };
      return type === 'payment.disputed' && dispute?.id === id;
    });
    const events = new Set(of.map(({ event }) => event));
    if (events.size !== 1) found.push(`dispute ${id} of ${row.id} was told ${events.size} times`);
    for (const { data } of of) {
      const said = (data as { dispute?: unknown }).dispute;
      if (JSON.stringify(said) !== JSON.stringify({ id, amount, reason })) {
        found.push(`dispute ${id} of ${amount} for ${reason} was told as ${JSON.stringify(said)}`);
      }
    }
  }
}
