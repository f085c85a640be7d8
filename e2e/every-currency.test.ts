import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { thisMachineFor } from '@triplock/launcher';
import { renderAudit, type AuditReport } from '@triplock/inspect';
import { currencies, minorDigits, withdrawnCurrencies } from '@triplock/payments';
import { eventually } from '@triplock/testing';
import {
  deleteEndpoints,
  newKey,
  openWebhookReceiver,
  partner,
  type Answer,
  type Partner,
  type WebhookReceiver,
} from './test/partner.ts';
import { command, home, onTheSystem } from './test/system.ts';

/** What ends a transfer, a card and a refund; the steps between tell the same amounts. */
const told = ['payment.succeeded', 'payment.captured', 'refund.succeeded'] as const;

/** Pays alone, so that all of its days and sums are of this file. */
const id = `currencies-${randomBytes(4).toString('hex')}`;
let payer: Partner;
let receiver: WebhookReceiver;

const on = onTheSystem(async ({ system, atEnd }) => {
  const added = await command('partners', 'add', id, '--json');
  assert.equal(added.code, 0, added.stderr);
  const { apiKey } = JSON.parse(added.stdout) as { apiKey: string };
  payer = partner({ gateways: system.gateways, partners: [{ id, apiKey, webhookSecret: '' }] }, id);
  receiver = await openWebhookReceiver(thisMachineFor(home));
  atEnd(async () => {
    await deleteEndpoints(system.gateway, apiKey);
    await receiver.close();
  });
  const body = { url: receiver.url, enabled_events: [...told] };
  const path = '/v1/webhook-endpoints';
  const set = await payer.send({ method: 'POST', path, key: newKey('endpoint'), body });
  assert.equal(set.status, 201, set.body);
});

/** In which Stripe charges no card (docs.stripe.com/currencies, 2026-09-03). */
const noCard = new Set(
  (
    'BOV BTN CHE CHW CLF COU CUP ERN GHS IQD IRR KPW LYD MRU MXV SDG SSP STN SVC SYP TMT USN UYI UYW ' +
    'VED VES XAD ZWG'
  ).split(' '),
);

/** Digits at the end that have to be 0 by card. */
const lostByCard: Readonly<Record<string, number>> = {
  BHD: 1,
  JOD: 1,
  KWD: 1,
  OMR: 1,
  TND: 1,
  MGA: 2,
};

const zeroDecimal = new Set(
  'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' '),
);

/** How many digits behind the point Stripe counts. */
function decimalsAtStripe(currency: string): number {
  if (zeroDecimal.has(currency)) return 0;
  return lostByCard[currency] === undefined ? 2 : 3;
}

/** An amount in every form in which anybody writes it. */
type Written = {
  /** As partners send it. */
  minor: number;
  /** As files write it: `27614.35`. */
  decimal: string;
  /** As pages and commands write it: `27 614.35 EUR`. */
  shown: string;
  /** As Stripe has it. */
  atStripe: number;
};

/** So many of the larger unit, in thousands and ones, and something in every digit behind it. */
function write(currency: string, [thousands, ones]: [string, string], lost = 0): Written {
  const digits = minorDigits(currency)!;
  const fraction = '3581'.slice(0, digits - lost).padEnd(digits, '0');
  const point = digits === 0 ? '' : '.';
  const decimals = decimalsAtStripe(currency);
  return {
    minor: Number(`${thousands}${ones}${fraction}`),
    decimal: `${thousands}${ones}${point}${fraction}`,
    shown: `${thousands} ${ones}${point}${fraction} ${currency}`,
    atStripe: Number(`${thousands}${ones}${fraction.padEnd(decimals, '0').slice(0, decimals)}`),
  };
}

/** A book transfer, and a card that is held, captured in part and given back in part. */
type Paid = { currency: string; transfer: Entered; card?: Card };
type Card = { id: string; held: Written; taken: Entered; back: Entered };
type Entered = Written & { id: string };

async function accepted(answer: Promise<Answer>): Promise<string> {
  const { status, body } = await answer;
  assert.equal(status, 202, body);
  return (JSON.parse(body) as { id: string }).id;
}

async function payIn(currency: string): Promise<Paid> {
  const transfer = write(currency, ['27', '614']);
  const order = { amount: transfer.minor, currency };
  const key = newKey(currency);
  // A card that cannot be charged leaves its key unused.
  if (noCard.has(currency)) await refusedAt('#/currency', { ...order, ...visa }, key);
  const paid = { ...transfer, id: await accepted(payer.pay(key, order)) };
  if (noCard.has(currency)) return { currency, transfer: paid };

  const lost = lostByCard[currency] ?? 0;
  const [held, taken, back] = (['39', '10', '4'] as const).map((thousands) =>
    write(currency, [thousands, '827'], lost),
  ) as [Written, Written, Written];
  const card = { amount: held.minor, currency, ...visa, capture_method: 'manual' };
  const cardId = await accepted(payer.pay(newKey(currency), card));
  const takenId = await accepted(follow(cardId, 'capture', { amount: taken.minor }));
  const backId = await accepted(follow(cardId, 'refund', { amount: back.minor }));
  const parts = { taken: { ...taken, id: takenId }, back: { ...back, id: backId } };
  return { currency, transfer: paid, card: { id: cardId, held, ...parts } };
}

const visa = { payment_method: 'pm_card_visa' };

function follow(paymentId: string, kind: 'capture' | 'refund', body: object): Promise<Answer> {
  const path = `/v1/payments/${paymentId}/${kind}s`;
  return payer.send({ method: 'POST', path, key: newKey(kind), body });
}

async function refusedAt(pointer: string, body: object, key = newKey()): Promise<string> {
  const answer = await payer.pay(key, body);
  const problem = JSON.parse(answer.body) as {
    code: string;
    errors: { pointer: string; detail: string }[];
  };
  const pointers = problem.errors.map((each) => each.pointer);
  assert.deepEqual([answer.status, problem.code, pointers], [400, 'invalid_request', [pointer]]);
  return problem.errors[0]!.detail;
}

/** By some threads, each taking the next. */
async function side<Item, Made>(
  items: Iterable<Item>,
  make: (item: Item) => Promise<Made>,
  threads = 16,
): Promise<Made[]> {
  const made: Made[] = [];
  const next = items[Symbol.iterator]();
  const thread = async () => {
    for (let at = next.next(); !at.done; at = next.next()) made.push(await make(at.value));
  };
  await Promise.all(Array.from({ length: threads }, thread));
  return made;
}

test('an amount with every digit of its currency is the same in every layer, and by card at the provider, part captured and part given back', async (t) => {
  const from = new Date();
  const all = await side(currencies, payIn);
  const cards = all.flatMap(({ currency, card }) =>
    card === undefined ? [] : [{ currency, ...card }],
  );
  assert.deepEqual(
    [all.length, cards.length],
    [currencies.length, currencies.length - noCard.size],
  );
  const ends = new Set([
    ...all.map(({ transfer }) => transfer.id),
    ...cards.flatMap((card) => [card.id, card.back.id]),
  ]);
  const webhooks = await toldOf(ends);
  const until = new Date();

  await t.test('the API shows it', () => seeByApi(all));
  await t.test('the ledger and its entries have it', () => seeInLedger(all));
  await t.test('events and webhooks tell it', () => seeTold(all, webhooks));
  await t.test('the provider charged and gave back that much, in its own unit', () =>
    seeAtStripe(cards, from),
  );
  await t.test(
    'the audit finds it equal everywhere, and its copy of the provider’s journal too',
    () => seeAudited(all),
  );
  await t.test('settlements, balance and their file add it up', () =>
    seeSettled(all, { from, until }),
  );
  await t.test(
    'the console and both of its files write it with all digits, and a search finds it by them',
    () => seeInConsole(all, { from, until }),
  );
  await t.test('a trace writes it the same at each hop', () => seeTraced(cards));
});

type Shown = {
  id: string;
  currency: string;
  amount: number;
  amount_captured?: number;
  amount_refunded: number;
};
type Told = { type: string; data: Shown };

/**
 * The webhook of each, once they have come, copies left out. A refund is the last of its payment,
 * and events are taken in their order: with it nothing is left that could wait for an endpoint
 * which is gone.
 */
async function toldOf(ids: ReadonlySet<string>): Promise<Told[]> {
  const what = `webhooks of ${ids.size} transfers, cards and refunds`;
  return eventually(
    async () => {
      const once = new Map(receiver.received.map((webhook) => [webhook.id, webhook.body]));
      const bodies = [...once.values()].map((body) => JSON.parse(body) as Told);
      const found = bodies.filter(({ data }) => ids.has(data.id));
      return found.length >= ids.size && found;
    },
    { withinMs: 120_000, what },
  );
}

async function seeByApi(all: readonly Paid[]): Promise<void> {
  const shown = new Map<string, Shown>();
  for (let after = ''; ;) {
    const answer = await payer.send({ path: `/v1/payments?limit=100${after}` });
    const { data, has_more: more } = JSON.parse(answer.body) as {
      data: Shown[];
      has_more: boolean;
    };
    for (const each of data) shown.set(each.id, each);
    if (!more) break;
    after = `&starting_after=${data.at(-1)!.id}`;
  }
  for (const { currency, transfer, card } of all) {
    const { amount, ...rest } = shown.get(transfer.id)!;
    assert.deepEqual([rest.currency, amount, rest.amount_refunded], [currency, transfer.minor, 0]);
    if (card === undefined) continue;
    const { amount: held, amount_captured: taken, amount_refunded: back } = shown.get(card.id)!;
    assert.deepEqual(
      [held, taken, back],
      [card.held.minor, card.taken.minor, card.back.minor],
      currency,
    );
  }
}

async function seeInLedger(all: readonly Paid[]): Promise<void> {
  const rows = await on.look.ledger.query<{ id: string; amount: string; currency: string }>(
    `SELECT txn_id AS id, amount::text, currency FROM ledger.entries
     WHERE txn_id IN (SELECT txn_id FROM ledger.transactions WHERE partner_id = $1)`,
    [id],
  );
  const moved = new Map(rows.map((row) => [row.id, `${row.amount} ${row.currency}`]));
  let entries = 0;
  for (const { currency, transfer, card } of all) {
    // What a capture took is an entry of its own, and its payment has none.
    const expected = card === undefined ? [transfer] : [transfer, card.taken, card.back];
    for (const { id: txnId, minor } of expected) {
      assert.equal(moved.get(txnId), `${minor} ${currency}`);
      entries += 1;
    }
  }
  assert.equal(rows.length, entries);
}

async function seeTold(all: readonly Paid[], webhooks: readonly Told[]): Promise<void> {
  const rows = await on.look.ledger.query<{ payload: string }>(
    `SELECT payload::text FROM ledger.outbox
     WHERE txn_id IN (SELECT txn_id FROM ledger.transactions WHERE partner_id = $1)`,
    [id],
  );
  const events = rows.map(({ payload }) => JSON.parse(payload) as Told);
  for (const source of [events, webhooks]) {
    const of = (type: string, txnId: string) => {
      const found = source.filter((each) => each.type === type && each.data.id === txnId);
      assert.equal(found.length, 1, `${type} of ${txnId}`);
      return found[0]!.data;
    };
    for (const { currency, transfer, card } of all) {
      const paid = of('payment.succeeded', transfer.id);
      assert.deepEqual([paid.amount, paid.currency], [transfer.minor, currency]);
      if (card === undefined) continue;
      const captured = of('payment.captured', card.id);
      assert.deepEqual(
        [captured.amount, captured.amount_captured],
        [card.held.minor, card.taken.minor],
      );
      const back = of('refund.succeeded', card.back.id);
      assert.deepEqual([back.amount, back.currency], [card.back.minor, currency]);
    }
  }
}

type AtStripe = {
  id: string;
  amount: number;
  amount_received?: number;
  amount_captured?: number;
  currency: string;
  metadata: { txn_id?: string; partner_id?: string };
};

/** Everything of this partner's on one of Stripe's lists, as Stripe answers it. */
async function listed(list: string, from: Date): Promise<Map<string, AtStripe>> {
  const found = new Map<string, AtStripe>();
  const since = Math.floor(from.getTime() / 1_000) - 60;
  for (let after = ''; ;) {
    const url = `${on.system.providers.stripe.url}/v1/${list}?limit=100&created[gte]=${since}${after}`;
    const answer = await fetch(url, { headers: { authorization: 'Bearer sk_test_triplock' } });
    const { data, has_more: more } = (await answer.json()) as {
      data: AtStripe[];
      has_more: boolean;
    };
    const mine = data.filter(({ metadata }) => metadata.partner_id === id);
    for (const each of mine) found.set(each.metadata.txn_id!, each);
    if (!more) return found;
    after = `&starting_after=${data.at(-1)!.id}`;
  }
}

async function seeAtStripe(
  cards: readonly ({ currency: string } & Card)[],
  from: Date,
): Promise<void> {
  const [intents, charges, refunds] = await Promise.all(
    ['payment_intents', 'charges', 'refunds'].map((list) => listed(list, from)),
  );
  for (const { currency, id: txnId, held, taken, back } of cards) {
    const [intent, charge, refund] = [
      intents!.get(txnId),
      charges!.get(txnId),
      refunds!.get(back.id),
    ];
    const codes = [intent, charge, refund].map((each) => each?.currency);
    assert.deepEqual(codes, Array(3).fill(currency.toLowerCase()));
    assert.deepEqual(
      [intent?.amount, intent?.amount_received],
      [held.atStripe, taken.atStripe],
      currency,
    );
    assert.deepEqual(
      [charge?.amount, charge?.amount_captured],
      [held.atStripe, taken.atStripe],
      currency,
    );
    assert.equal(refund?.amount, back.atStripe, currency);
  }
  assert.deepEqual(
    [intents, charges, refunds].map((each) => each?.size),
    Array(3).fill(cards.length),
  );
}

async function seeAudited(all: readonly Paid[]): Promise<void> {
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', '60');
  assert.ok(stdout.startsWith('{'), stdout + stderr);
  const report = JSON.parse(stdout) as AuditReport;
  assert.deepEqual([report.drift, code], [[], 0]);
  const rows = await on.look.database.query<{
    kind: string;
    id: string;
    amount: string;
    currency: string;
  }>(
    'SELECT kind, txn_id AS id, amount::text, currency FROM auditor.provider_journal WHERE partner_id = $1',
    [id],
  );
  const journal = new Map(
    rows.map((row) => [`${row.kind} ${row.id}`, `${row.amount} ${row.currency}`]),
  );
  const lines = renderAudit(report);
  for (const { currency, transfer, card } of all) {
    const sums = report.sums.find((each) => each.partner === id && each.currency === currency)!;
    const gross = {
      count: card === undefined ? 1 : 2,
      amount: transfer.minor + (card?.taken.minor ?? 0),
    };
    for (const layer of ['ledger', 'published', 'delivered'] as const) {
      assert.deepEqual(sums.gross[layer], gross, `${layer} ${currency}`);
    }
    if (card === undefined) {
      assert.ok(
        lines.some((line) => line.includes(transfer.shown)),
        transfer.shown,
      );
      continue;
    }
    for (const layer of ['ledger', 'provider'] as const) {
      assert.deepEqual(sums.cards.charged[layer], { count: 1, amount: card.taken.minor });
      assert.deepEqual(sums.cards.givenBack[layer], { count: 1, amount: card.back.minor });
    }
    assert.ok(
      lines.some((line) => line.includes(card.taken.shown)),
      card.taken.shown,
    );
    const copied = [`intent ${card.id}`, `charge ${card.id}`, `refund ${card.back.id}`].map((key) =>
      journal.get(key),
    );
    const amounts = [card.held, card.taken, card.back].map(({ minor }) => `${minor} ${currency}`);
    assert.deepEqual(copied, amounts);
  }
}

type Times = { from: Date; until: Date };

/** The days of the run: two of them around midnight. */
function daysOf({ from, until }: Times): string[] {
  return [...new Set([from, until].map((at) => at.toISOString().slice(0, 10)))];
}

const totals = ({ transfer, card }: Paid) => {
  const gross = transfer.minor + (card?.taken.minor ?? 0);
  const refunds = card?.back.minor ?? 0;
  return [gross, refunds, gross - refunds];
};

async function seeSettled(all: readonly Paid[], times: Times): Promise<void> {
  const days = daysOf(times);
  type Day = { currency: string; gross: number; refunds: number; net: number };
  const added = (rows: readonly Day[], currency: string) => {
    const own = rows.filter((row) => row.currency === currency);
    return (['gross', 'refunds', 'net'] as const).map((name) =>
      own.reduce((sum, row) => sum + row[name], 0),
    );
  };
  const [shown, filed] = await eventually(async () => {
    const shown: Day[] = [];
    const filed: Day[] = [];
    for (const day of days) {
      const { body } = await payer.send({ path: `/v1/settlements?date=${day}` });
      shown.push(...(JSON.parse(body) as { data: Day[] }).data);
      const file = await payer.send({ path: `/v1/settlements/${day}.csv` });
      for (const row of rowsOf(file.body)) {
        const [gross, refunds, net] = [row['gross'], row['refunds'], row['net']].map(Number);
        filed.push({ currency: row['currency']!, gross: gross!, refunds: refunds!, net: net! });
      }
    }
    const whole = all.every((paid) => added(shown, paid.currency)[2] === totals(paid)[2]);
    return whole && [shown, filed];
  });
  const { body } = await payer.send({ path: '/v1/balance' });
  type Balance = { currency: string; available: number; settled: number; refunded: number };
  const { data: balances } = JSON.parse(body) as { data: Balance[] };
  for (const paid of all) {
    const { currency } = paid;
    const expected = totals(paid);
    assert.deepEqual(added(shown, currency), expected, currency);
    assert.deepEqual(added(filed, currency), expected, currency);
    const balance = balances.find((each) => each.currency === currency)!;
    const { available, settled, refunded } = balance;
    assert.deepEqual([refunded, available + settled], expected.slice(1), currency);
  }
}

/** A CSV file without quotes, by its heads. */
function rowsOf(text: string): Record<string, string>[] {
  const [heads, ...rows] = text
    .trim()
    .split('\r\n')
    .map((line) => line.split(','));
  return rows.map((cells) => Object.fromEntries(cells.map((cell, at) => [heads![at]!, cell])));
}

async function seen(path: string): Promise<string> {
  const answer = await fetch(new URL(path, on.system.console));
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return text.replaceAll('\u00a0', ' ').replaceAll('&nbsp;', ' ');
}

async function seeInConsole(all: readonly Paid[], times: Times): Promise<void> {
  const days = daysOf(times);
  const [payments, settlements] = await Promise.all([
    seen(`/payments.csv?partner=${id}`),
    seen(`/settlements.csv?partner=${id}&from=${days[0]}&until=${days.at(-1)}`),
  ]);
  const filed = new Map(rowsOf(payments).map((row) => [row['id'], row]));
  const settled = rowsOf(settlements);
  for (const paid of all) {
    const { currency, transfer, card } = paid;
    const digits = minorDigits(currency)!;
    const row = filed.get(transfer.id)!;
    assert.deepEqual([row['amount'], row['currency']], [transfer.decimal, currency]);
    if (card !== undefined) {
      const { amount, refunded } = filed.get(card.id)!;
      assert.deepEqual([amount, refunded], [card.held.decimal, card.back.decimal]);
    }
    // Each day in minor units: a decimal of all its digits, without its point.
    const sums = ['gross', 'refunds', 'net'].map((name) =>
      settled
        .filter((each) => each['currency'] === currency)
        .reduce((sum, each) => sum + minorOf(each[name]!, digits), 0),
    );
    assert.deepEqual(sums, totals(paid), currency);
  }
  await side(all, async ({ currency, transfer, card }) => {
    for (const { decimal, shown, ...each } of card === undefined
      ? [transfer]
      : [transfer, { ...card.held, id: card.id }]) {
      const range = `least=${decimal}&greatest=${decimal}`;
      const page = await seen(`/payments?partner=${id}&currency=${currency}&${range}`);
      assert.ok(page.includes(each.id) && page.includes(shown), `${shown} is found by its amount`);
    }
    const page = await seen(`/payments/${card?.id ?? transfer.id}`);
    const written = card === undefined ? [transfer] : [card.held, card.taken, card.back];
    for (const { shown } of written) assert.ok(page.includes(shown), shown);
  });
}

function minorOf(decimal: string, digits: number): number {
  const [whole = '', fraction = ''] = decimal.split('.');
  assert.equal(fraction.length, digits, decimal);
  return Number(whole + fraction);
}

/**
 * One for each relation of units: as many digits in ISO 4217, in `Intl` and at Stripe or other
 * ones. A look reads Kafka; services/operator/trace.test.ts has a trace of every currency without
 * it.
 */
const units = ['EUR', 'JPY', 'HUF', 'ISK', 'UGX', 'KWD', 'MGA'];

async function seeTraced(cards: readonly ({ currency: string } & Card)[]): Promise<void> {
  const look = async ({ id: txnId, held, taken }: (typeof cards)[number]) => {
    const layers = (await seen(`/payments/${txnId}/layers`)).replaceAll(/<[^>]+>/g, '');
    assert.match(layers, new RegExp(`intent pi_\\w+ succeeded, ${held.shown}`));
    assert.match(layers, new RegExp(`charge ch_\\w+ succeeded, ${taken.shown}`));
  };
  const some = cards.filter(({ currency }) => units.includes(currency));
  assert.equal(some.length, units.length);
  // Each look opens connections of its own.
  await side(some, look, 2);
  const { id: txnId, held, taken, back } = cards.find(({ currency }) => currency === 'MGA')!;
  const { code, stdout, stderr } = await command('trace', txnId);
  assert.equal(code, 0, stderr);
  assert.ok(stdout.includes(` · ${held.shown} · captured`), stdout);
  assert.match(stdout, new RegExp(`intent pi_\\w+ succeeded, ${held.shown}`));
  assert.match(stdout, new RegExp(`charge ch_\\w+ succeeded, ${taken.shown}`));
  assert.match(stdout, new RegExp(`refund re_\\w+ succeeded, ${back.shown}`));
  assert.match(stdout, new RegExp(`clearing → \\S+ ${taken.shown}`));
  assert.ok(stdout.includes(` · ${back.shown} · succeeded`), stdout);
}

test('a card is refused at the door for what the provider cannot say, with what to change', async () => {
  for (const [currency, lost] of Object.entries(lostByCard)) {
    const amount = 10 ** lost * 27 + 1;
    const detail = await refusedAt('#/amount', { amount, currency, ...visa });
    assert.match(detail, new RegExp(`multiples of ${10 ** lost} .* ${amount - 1}\\.`));
  }
  await refusedAt('#/amount', { amount: 10_000_000_000, currency: 'ISK', ...visa });
  for (const currency of withdrawnCurrencies)
    await refusedAt('#/currency', { amount: 1_250, currency });
});

test('a part that the provider cannot say ends failed and moves nothing, and another part of the same payment follows', async () => {
  await side(['KWD', 'MGA'], async (currency) => {
    const hold = { amount: 276_100, currency, ...visa, capture_method: 'manual' };
    const payment = await accepted(payer.pay(newKey(currency), hold));
    const ask = async (kind: 'capture' | 'refund', amount: number) => {
      const asked = await accepted(follow(payment, kind, { amount }));
      const headers = { prefer: 'wait=30' };
      const { body } = await payer.send({ path: `/v1/${kind}s/${asked}`, headers });
      type Ended = { id: string; status: string; failure?: { code: string } };
      const { status, failure } = JSON.parse(body) as Ended;
      return { id: asked, end: failure?.code ?? status };
    };
    assert.equal((await ask('capture', 200_001)).end, 'amount_not_expressible');
    assert.equal((await ask('capture', 200_000)).end, 'succeeded');
    assert.equal((await ask('refund', 100_001)).end, 'amount_not_expressible');
    const last = await ask('refund', 100_000);
    assert.equal(last.end, 'succeeded');
    await toldOf(new Set([last.id]));
    const shown = JSON.parse((await payer.payment(payment)).body) as Shown;
    assert.deepEqual([shown.amount_captured, shown.amount_refunded], [200_000, 100_000]);
  });
});
