import { count } from '@triplock/command';
import {
  formatMoney,
  type EventType,
  type FollowUpKind,
  type TransactionState,
  type TxnId,
} from '@triplock/payments';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  promiseOneEffect,
  promiseOneFailure,
  promiseTold,
  untilDelivered,
  untilFinal,
  type Guards,
  type PaymentSeen,
} from '../effects.ts';
import { bringBack, killAt, type CrashSite } from '../faults.ts';
import {
  newCardOrder,
  sendFirst,
  sendFollowUp,
  sendRefundThatFits,
  type Accepted,
} from '../orders.ts';
import type { FollowUpBody } from '../partner.ts';
import { promised, until } from '../promises.ts';
import {
  askProvider,
  askProviderRefunds,
  describeProvider,
  disputeAtBank,
  requireSimulator,
} from '../provider.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { auditSystem, type System } from '../system.ts';

/** Two requests, two keys, one authorisation: the provider may be asked by one of them alone. */
export const capturedTwice: Scenario = {
  name: 'captured-twice',
  failure: 'a payment is captured twice at once, and workers die around that',
  absorbedBy:
    'guard 2: one guarded update gives the payment to one capture; the intent says how much it took',
  run: captureTwice,
};

async function captureTwice(system: System): Promise<Observation> {
  let held: Accepted | undefined;
  await killedAt(system, 'worker.authorized', async () => {
    held = await sendFirst(system, holdOf(system, 'captured-twice'));
  });
  await untilHeld(system, held!);
  let captures: TxnId[] = [];
  await killedAt(system, 'worker.captured', async () => {
    const asked = [{ amount: 1_500 }, {}].map((body) => ask(system, held!, 'capture', body));
    captures = await Promise.all(asked);
  });
  const [taken] = await untilOneOf(system, captures, 'payment_already_captured');
  const end = await untilEnded(system, held!, 'captured');
  return observe(system, [end], {
    claims: 'two keys, so two captures: each its own 202',
    ledger: `one capture has the payment, the other failed (payment_already_captured); of the first: ${describeLedger(taken!)}`,
  });
}

/** Either may win. What may not happen is both, or that the provider and the ledger disagree. */
export const cancelledOrCaptured: Scenario = {
  name: 'cancelled-or-captured',
  failure: 'a cancellation races with a capture, and workers die around either',
  absorbedBy: 'guard 2: the ledger names the one that has the payment before the provider is asked',
  run: cancelAgainstCapture,
};

async function cancelAgainstCapture(system: System): Promise<Observation> {
  const [raced, released] = await Promise.all([
    sendHeld(system, 'cancelled-or-captured'),
    sendHeld(system, 'cancelled-or-captured'),
  ]);
  let asked: TxnId[] = [];
  await killedAt(system, 'worker.reserved', async () => {
    const kinds = ['cancellation', 'capture'] as const;
    asked = await Promise.all(kinds.map((kind) => ask(system, raced, kind, {})));
  });
  const winner = (await untilFinal(system, raced.id)).ledger[0]!.state;
  const isCaptured = winner === 'captured';
  const refusal = isCaptured ? 'payment_already_captured' : 'payment_canceled';
  await untilOneOf(system, asked, refusal);
  const first = await untilEnded(system, raced, isCaptured ? 'captured' : 'canceled');

  let cancellation: TxnId | undefined;
  await killedAt(system, 'worker.cancelled', async () => {
    cancellation = await ask(system, released, 'cancellation', {});
  });
  const late = await ask(system, released, 'capture', {});
  await untilOneOf(system, [cancellation!, late], 'payment_canceled');
  const second = await untilEnded(system, released, 'canceled');
  return observe(system, [first, second], {
    claims: 'a key each, so each has its own 202',
    ledger: `the ${isCaptured ? 'capture' : 'cancellation'} was first, the other failed (${refusal}); a capture behind a cancellation takes nothing`,
  });
}

/** What was let go can never be given back: refunds are capped by what was taken. */
export const capturedThenRefunded: Scenario = {
  name: 'captured-then-refunded',
  failure: 'a part is captured, more than that is asked back, and workers die around both',
  absorbedBy: 'guard 2: refunds are reserved on what was captured, and the provider’s list is read',
  run: captureThenRefund,
};

const part = 1_500;

async function captureThenRefund(system: System): Promise<Observation> {
  const held = await sendHeld(system, 'captured-then-refunded');
  let capture: TxnId | undefined;
  await killedAt(system, 'worker.settled', async () => {
    capture = await ask(system, held, 'capture', { amount: part });
  });
  await untilOneOf(system, [capture!], 'none');
  const tooMuch = await sendRefundThatFits(system, held, { amount: part + 1 });
  let refunds: TxnId[] = [];
  await killedAt(system, 'worker.refunded', async () => {
    const bodies = [{ amount: 1_000 }, { amount: 1_000 }];
    refunds = await Promise.all(bodies.map((body) => ask(system, held, 'refund', body)));
  });
  const asked = [...refunds, ...(tooMuch === undefined ? [] : [tooMuch])];
  await untilOneOf(system, asked, 'amount_exceeds_refundable');
  const rest = await ask(system, held, 'refund', {});
  await untilOneOf(system, [rest], 'none');
  const gaveBack = await askProviderRefunds(system, [...asked, rest]);
  const isAll = gaveBack.toSorted((a, b) => a - b).join() === '500,1000';
  promised('what was captured is given back, once', isAll, { ids: [held.id], saw: gaveBack });
  const end = await untilEnded(system, held, 'captured', part);
  return observe(system, [end], {
    claims: 'a key each, so each its own 202; one of more than was captured is refused at once',
    ledger: `a part captured; of it one refund of two and then the rest went back, ${count(asked.length - 1, 'other')} failed (amount_exceeds_refundable)`,
  });
}

/** The bank's word is told once, and no sooner than the end of the payment. */
export const disputed: Scenario = {
  name: 'disputed',
  failure: 'customers dispute charges, in parts or while one is pending, and workers die over it',
  absorbedBy:
    'guard 2: noted beside the payment and told in one transaction, each once; Stripe reports again',
  run: disputeCharges,
};

async function disputeCharges(system: System): Promise<Observation> {
  requireSimulator(system);
  let early: Accepted;
  // Stripe reports the dispute of a payment that the ledger has as pending.
  await killedAt(system, 'worker.charged', async () => {
    early = await sendFirst(system, newCardOrder(system, 'disputed', 'pm_card_createDispute'));
  });
  const late = await sendFirst(system, newCardOrder(system, 'disputed'));
  await untilFinal(system, late.id);
  const disputeHalf = () => disputeAtBank(system, late, late.body.amount / 2);
  // Noted and not answered: Stripe reports it again. Of the other half there is a second dispute.
  await killedAt(system, 'worker.disputed', disputeHalf);
  await disputeHalf();
  const ends = [];
  for (const payment of [early!, late]) {
    const events: EventType[] = ['payment.succeeded', 'payment.disputed'];
    if (payment === late) events.push('payment.disputed');
    await untilEvents(system, payment.id, events.length);
    const seen = await untilDelivered(system, payment.id);
    promiseTold({ state: 'succeeded', events, entries: 1 }, { txnId: payment.id, seen });
    ends.push(await promiseBooks(system, payment, { seen, taken: payment.body.amount }));
  }
  return observe(system, ends, {
    claims: 'not asked again: each partner has its 202',
    ledger: 'each dispute is noted once, behind its payment’s end',
  });
}

/** One of 25.00 that is authorised, and captured or cancelled later. */
function holdOf(system: System, scenario: string) {
  requireSimulator(system);
  const order = newCardOrder(system, scenario);
  return { ...order, body: { ...order.body, capture_method: 'manual' as const } };
}

async function sendHeld(system: System, scenario: string): Promise<Accepted> {
  const accepted = await sendFirst(system, holdOf(system, scenario));
  await untilHeld(system, accepted);
  return accepted;
}

async function untilHeld(system: System, { id, partner, body }: Accepted): Promise<void> {
  await untilDelivered(system, id);
  const { status } = JSON.parse((await partner.read(id)).body) as { status: string };
  promised('GET says that the money is held', status === 'authorized', { ids: [id], saw: status });
  const { held, taken } = await askProvider(system, id);
  const [holds, took] = [held, taken].map((amount) => formatMoney(amount, body.currency));
  system.report(`GET says authorized; the provider holds ${holds}, and has taken ${took}`);
}

async function ask(
  system: System,
  of: Accepted,
  kind: FollowUpKind,
  body: FollowUpBody,
): Promise<TxnId> {
  const id = await sendFollowUp(system, of, { kind, body });
  const { amount } = body;
  const much = amount === undefined ? 'all' : formatMoney(amount, of.body.currency);
  system.report(`${kind} of ${much} → 202`);
  return id;
}

/** Does something that a worker dies over, at that point, and starts it again. */
async function killedAt(
  system: System,
  point: CrashSite['point'],
  trigger: () => Promise<void>,
): Promise<void> {
  const died = await killAt(system, { service: 'ledger-worker', point }, trigger);
  system.report(`${died.name} (pid ${died.pid}) killed itself at ${point}`);
  await bringBack(system, died);
}

async function untilEvents(system: System, txnId: string, eventsMin: number): Promise<void> {
  await until({
    what: `${eventsMin} events of ${txnId}`,
    signal: system.signal,
    check: async () => (await lookAtPayment(system, txnId)).events.length >= eventsMin,
  });
}

/** Waits for the ends of what was asked for: one succeeded, once, and the others say why not. */
async function untilOneOf(
  system: System,
  ids: readonly TxnId[],
  refusal: string,
): Promise<PaymentSeen[]> {
  const all = await Promise.all(ids.map((id) => untilFinal(system, id)));
  const succeeded = all.filter(({ ledger: [row] }) => row?.state === 'succeeded');
  promised('one of them counts', succeeded.length === 1, { ids, saw: succeeded.length });
  for (const [n, seen] of all.entries()) {
    const txnId = ids[n]!;
    const { kind, state, failure } = seen.ledger[0]!;
    if (state !== 'succeeded') {
      promiseOneFailure(kind, { txnId, seen });
      promised('the others say why', failure === refusal, { ids: [txnId], saw: failure });
    } else if (kind === 'cancellation') {
      const events: EventType[] = ['cancellation.succeeded'];
      promiseTold({ state, events, entries: 0 }, { txnId, seen });
    } else {
      promiseOneEffect(txnId, seen, kind);
    }
  }
  return succeeded;
}

type End = { id: TxnId; became: string; seen: PaymentSeen };

/** Waits for the end of what was held; of a capture, of all of it unless a part is given. */
async function untilEnded(
  system: System,
  payment: Accepted,
  state: Extract<TransactionState, 'captured' | 'canceled'>,
  taken?: number,
): Promise<End> {
  const { id: txnId, partner } = payment;
  const seen = await untilFinal(system, txnId);
  const events: EventType[] = ['payment.authorized', `payment.${state}`];
  // What was captured is moved by the capture's own entry.
  promiseTold({ state, events, entries: 0 }, { txnId, seen });
  const shown = JSON.parse((await partner.read(txnId)).body) as { amount_captured?: number };
  const captured = shown.amount_captured ?? 0;
  const isMeant = taken === undefined || captured === taken;
  promised('GET says how much was captured', isMeant, { ids: [txnId], saw: shown });
  return promiseBooks(system, payment, { seen, taken: captured });
}

/** The provider has taken so much for a payment, on one intent, and holds nothing of it. */
async function promiseBooks(
  system: System,
  { id }: Accepted,
  { seen, taken }: { seen: PaymentSeen; taken: number },
): Promise<End> {
  const provider = await askProvider(system, id);
  const isEqual = provider.intents.length === 1 && provider.taken === taken && provider.held === 0;
  promised('the provider took what we say', isEqual, { ids: [id], saw: { provider, taken } });
  return { id, seen, became: `${describeProvider(provider)}, ${taken} taken` };
}

/** What is to be seen of it, once the audit finds the provider's books and ours equal. */
async function observe(
  system: System,
  ends: readonly End[],
  { claims, ledger }: Pick<Guards, 'claims' | 'ledger'>,
): Promise<Observation> {
  const ids = ends.map(({ id }) => id);
  const { ok, drift, waiting } = await auditSystem(system, 60_000);
  promised('the provider’s books and ours are equal', ok, { ids, saw: drift });
  const isWaited = waiting.some((each) => ids.some((id) => each.ids.includes(id)));
  promised('nobody is waited for any more', !isWaited, { ids, saw: waiting });
  const { seen } = ends[0]!;
  return {
    ids,
    guards: {
      claims,
      ledger: `${ledger}; ${ends.map(({ became }) => became).join('; ')}`,
      inbox: `of the payment: ${describeInbox(seen)}`,
      webhook: `in its order: ${seen.events.map(({ type }) => type).join(', ')}; ${describeWebhook(seen)}`,
    },
  };
}
