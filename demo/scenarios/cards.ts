import { count } from '@triplock/command';
import { formatMoney } from '@triplock/payments';
import {
  describeInbox,
  describeLedger,
  describeWebhook,
  lookAtPayment,
  promiseOneEffect,
  promiseOneFailure,
  untilDelivered,
  type PaymentSeen,
} from '../effects.ts';
import { bringBack, killAt } from '../faults.ts';
import {
  newCardOrder,
  promiseOneRecord,
  promiseReplay,
  recordsOf,
  reportAnswer,
  send,
  sendFirst,
  sendRefundThatFits,
  type Accepted,
} from '../orders.ts';
import { fired, promised } from '../promises.ts';
import {
  askProvider,
  askProviderRefunds,
  describeProvider,
  requireSimulator,
  withProviderFault,
} from '../provider.ts';
import type { Observation, Scenario } from '../run-scenario.ts';
import { watchCounter } from '../services.ts';
import type { System } from '../system.ts';

/** Money has moved and the ledger does not know it yet: the key under which it moved does. */
export const chargedNotSettled: Scenario = {
  name: 'charged-not-settled',
  failure: 'the worker dies between charging the card and settling the payment',
  absorbedBy: 'guard 2: asked again by the same key, the provider tells of the charge it made',
  run: dieAfterCharging,
};

const afterCharging = { service: 'ledger-worker', point: 'worker.charged' } as const;

async function dieAfterCharging(system: System): Promise<Observation> {
  requireSimulator(system);
  const order = newCardOrder(system, 'charged-not-settled');
  const takenUp = await Promise.all(
    [
      { name: 'triplock_worker_resolved_total', labels: { outcome: 'settled' } },
      { name: 'triplock_worker_conflicts_total', labels: { outcome: 'resumed' } },
    ].map((counter) => watchCounter(system, 'ledger-worker', counter)),
  );
  let accepted: Accepted | undefined;
  const died = await killAt(system, afterCharging, async () => {
    accepted = await sendFirst(system, order);
  });
  const { id } = accepted!;
  const { ledger } = await lookAtPayment(system, id);
  const charged = await askProvider(system, id);
  const isPending = ledger[0]?.state === 'pending';
  fired('the card was not charged', charged.charges.length === 1);
  system.report(`${died.name} (pid ${died.pid}) killed itself; ${describeProvider(charged)}`);
  const resumed = 'another worker has resumed it already, by the same key';
  system.report(isPending ? 'the row is pending, and names no intent' : resumed);

  const back = await bringBack(system, died);
  const finds = isPending ? ' and finds the row unfinished' : '';
  system.report(`${back.name} is back (pid ${back.pid})${finds}`);
  const seen = await untilDelivered(system, id);
  // What the dead one counted died with it, so this was another, or the one that came back.
  const resumptions = await Promise.all(takenUp.map((each) => each.grown()));
  fired(
    'the payment was settled',
    resumptions.some((grown) => grown > 0),
  );
  const after = await askProvider(system, id);
  promised('a card is charged once', after.charges.length === 1, { ids: [id], saw: after });
  promiseOneEffect(id, seen);
  const { records } = await recordsOf(system, accepted!);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${count(records.length, 'Kafka record')}`,
      ledger: `resumed by the same key, ${describeProvider(after)}; ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: describeWebhook(seen),
    },
  };
}

/** A time-out is not a failure, and no reason to charge anew: the key gives the same charge. */
export const chargeTimedOut: Scenario = {
  name: 'charge-timed-out',
  failure: 'the provider charges the card, then times out',
  absorbedBy:
    'guard 2: unknown is not failed; asked by the same key the provider tells of its charge',
  run: timeOut,
};

// Longer than the worker waits for an answer.
const timedOut = {
  fault: 'time-out',
  operation: 'payment_intents.create',
  count: 1,
  delayMs: 15_000,
};

async function timeOut(system: System): Promise<Observation> {
  let accepted: Accepted | undefined;
  let seen: PaymentSeen | undefined;
  const timeouts = await withProviderFault(system, timedOut, async () => {
    accepted = await sendFirst(system, newCardOrder(system, 'charge-timed-out'));
    seen = await untilDelivered(system, accepted.id);
  });
  fired('the provider answered in time', timeouts === 1);
  const { id } = accepted!;
  const provider = await askProvider(system, id);
  system.report(
    `${count(timeouts, 'answer')} to a charge never came; ${describeProvider(provider)}`,
  );
  promised('a card is charged once', provider.charges.length === 1, { ids: [id], saw: provider });
  promiseOneEffect(id, seen!);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${await promiseOneRecord(system, accepted!)}`,
      ledger: `asked again by the same key, and charged nobody again; ${describeLedger(seen!)}`,
      inbox: describeInbox(seen!),
      webhook: describeWebhook(seen!),
    },
  };
}

/**
 * Asking for ever under one key brings the same 500 for ever; another key alone may charge twice.
 */
export const sticky500: Scenario = {
  name: 'sticky-500',
  failure: 'the provider answers 500 to a charge, and keeps that as its answer to the key',
  absorbedBy:
    'guard 2: what the failed call made is looked for; then one intent, stored first, is charged',
  run: failOnce,
};

const serverError = { fault: 'error', operation: 'payment_intents.create', count: 1 };

async function failOnce(system: System): Promise<Observation> {
  let accepted: Accepted | undefined;
  let seen: PaymentSeen | undefined;
  const errors = await withProviderFault(system, serverError, async () => {
    accepted = await sendFirst(system, newCardOrder(system, 'sticky-500'));
    seen = await untilDelivered(system, accepted.id);
  });
  fired('the provider did not fail', errors === 1);
  const { id } = accepted!;
  const provider = await askProvider(system, id);
  system.report(`the first answer was a 500, and is kept; ${describeProvider(provider)}`);
  promised('a card is charged once', provider.charges.length === 1, { ids: [id], saw: provider });
  const one = provider.intents.length === 1;
  promised('a charge is tried on one intent', one, { ids: [id], saw: provider });
  promiseOneEffect(id, seen!);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${await promiseOneRecord(system, accepted!)}`,
      ledger: `found that it had made nothing, and charged by an intent stored first; ${describeLedger(seen!)}`,
      inbox: describeInbox(seen!),
      webhook: describeWebhook(seen!),
    },
  };
}

/** A decline is an end like any other: the key stands for it, and a new try needs a new key. */
export const declinedThenRetried: Scenario = {
  name: 'declined-then-retried',
  failure: 'a card is declined, and the partner sends the same payment again',
  absorbedBy: 'guard 1: the same 202 again; GET and the webhook say that it failed',
  run: declineAndRetry,
};

const declineCode = 'insufficient_funds';

async function declineAndRetry(system: System): Promise<Observation> {
  const card = 'pm_card_chargeDeclinedInsufficientFunds';
  const first = await sendFirst(system, newCardOrder(system, 'declined-then-retried', card));
  const { id } = first;
  await untilDelivered(system, id);
  const declined = await askProvider(system, id);
  fired('the card was charged', declined.charges.length === 0);
  system.report(`the bank says no (${declineCode}): ${describeProvider(declined)}`);

  const { answer: again } = await send(system, first);
  reportAnswer(system, 'the same again', again);
  promiseReplay(first, again);
  const failure = await readFailure(first);
  system.report(`GET says failed, ${failure}`);
  promised('a decline is reported with its reason', failure === declineCode, {
    ids: [id],
    saw: failure,
  });

  const seen = await untilDelivered(system, id);
  promiseOneFailure('payment', { txnId: id, seen });
  const after = await askProvider(system, id);
  const same = JSON.stringify(after) === JSON.stringify(declined);
  promised('a retry asks the provider nothing', same, { ids: [id], saw: after });
  return {
    ids: [id],
    guards: {
      claims: `gave the retry the same bytes: ${await promiseOneRecord(system, first)}`,
      ledger: `failed once and for ever; ${describeLedger(seen)}`,
      inbox: describeInbox(seen),
      webhook: `payment.failed: ${describeWebhook(seen)}`,
    },
  };
}

async function readFailure({ partner, id }: Accepted): Promise<string> {
  const answer = await partner.read(id);
  const { status, failure } = JSON.parse(answer.body) as {
    status: string;
    failure?: { code: string };
  };
  promised('a declined payment reads as failed', status === 'failed', { ids: [id], saw: answer });
  return failure?.code ?? 'without a reason';
}

/** Each fits alone, two do not: a check before the write would give back six times the payment. */
export const refundStorm: Scenario = {
  name: 'refund-storm',
  failure: 'ten refunds of 60 percent each are asked for at once, right behind their payment',
  absorbedBy: 'guard 2: one guarded update of the payment reserves what goes back',
  run: refundAtOnce,
};

const refundCount = 10;
const refusal = 'amount_exceeds_refundable';

async function refundAtOnce(system: System): Promise<Observation> {
  requireSimulator(system);
  const paid = await sendFirst(system, newCardOrder(system, 'refund-storm'));
  const amount = (paid.body.amount * 6) / 10;
  const money = formatMoney(amount, paid.body.currency);
  const asked = await Promise.all(
    Array.from({ length: refundCount }, () => sendRefundThatFits(system, paid, { amount })),
  );
  // Who comes once one has succeeded is refused by the gateway.
  const ids = asked.filter((id) => id !== undefined);
  fired('they came one after the other', new Set(ids).size > 1);
  system.report(`${count(refundCount, 'refund')} of ${money} each, ${ids.length} answered 202`);

  const payment = await untilDelivered(system, paid.id);
  promiseOneEffect(paid.id, payment);
  const allSeen = await Promise.all(ids.map((id) => untilDelivered(system, id)));
  const gaveBack = allSeen.flatMap((seen, n) => {
    const txnId = ids[n]!;
    const isRefunded = seen.ledger[0]?.state === 'succeeded';
    if (isRefunded) {
      promiseOneEffect(txnId, seen, 'refund');
      return [seen];
    }
    promiseOneFailure('refund', { txnId, seen });
    const why = seen.ledger[0]?.failure;
    promised('a refund that does not fit says so', why === refusal, { ids: [txnId], saw: why });
    return [];
  });
  promised('refunds never exceed their payment', gaveBack.length === 1, {
    ids,
    saw: allSeen.length,
  });
  const provider = await askProviderRefunds(system, ids);
  const once = provider.length === 1 && provider[0] === amount;
  promised('the provider gives back once', once, { ids, saw: provider });
  const [refunded] = gaveBack;
  return {
    ids: [paid.id],
    guards: {
      claims: `${count(ids.length, 'key')}, so ${count(ids.length, 'refund')}: each its own 202`,
      ledger: `1 refund reserved its ${money}, ${ids.length - 1} failed (${refusal}); the provider gave back once`,
      inbox: `of the one: ${describeInbox(refunded!)}`,
      webhook: `refund.succeeded: ${describeWebhook(refunded!)}, and refund.failed ${ids.length - 1} times`,
    },
  };
}
