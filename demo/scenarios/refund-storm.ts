import { count, formatMoney } from '@triplock/operator';
import { fired, promised } from '../broken-promise.ts';
import { describeInbox, describeWebhook } from '../guards.ts';
import { askProviderRefunds, requireSimulator } from '../provider.ts';
import { promiseOneEffect, promiseOneFailure, promiseOneRefund, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newCardOrder, sendFirst, sendRefund } from './send.ts';

/** Each fits alone, two do not: a check before the write would give back six times the payment. */
export const refundStorm: Scenario = {
  name: 'refund-storm',
  failure: 'ten refunds of 60 percent each are asked for at once, right behind their payment',
  absorbedBy: 'guard 2: one guarded update of the payment reserves what goes back',
  run,
};

const refunds = 10;
const reason = 'amount_exceeds_refundable';

async function run(system: System): Promise<Observation> {
  requireSimulator(system);
  const paid = await sendFirst(system, newCardOrder(system, 'refund-storm'));
  const amount = (paid.body.amount * 6) / 10;
  const money = formatMoney(amount, paid.body.currency);
  const ids = await Promise.all(
    Array.from({ length: refunds }, () => sendRefund(system, paid, { amount })),
  );
  fired('they were fewer', new Set(ids).size === refunds);
  system.tell(`${count(refunds, 'refund')} of ${money} each, all answered 202`);

  const payment = await untilTold(system, paid.id);
  promiseOneEffect(paid.id, payment);
  const sights = await Promise.all(ids.map((id) => untilTold(system, id)));
  const gaveBack = sights.flatMap((sight, n) => {
    const txnId = ids[n]!;
    const isRefunded = sight.ledger[0]?.state === 'succeeded';
    if (isRefunded) {
      promiseOneRefund(txnId, sight);
      return [sight];
    }
    promiseOneFailure('refund', { txnId, sight });
    const why = sight.ledger[0]?.failure;
    promised('a refund that does not fit says so', why === reason, { ids: [txnId], saw: why });
    return [];
  });
  promised('refunds never exceed their payment', gaveBack.length === 1, {
    ids,
    saw: sights.length,
  });
  const provider = await askProviderRefunds(system, ids);
  const once = provider.length === 1 && provider[0] === amount;
  promised('the provider gives back once', once, { ids, saw: provider });
  const [refunded] = gaveBack;
  return {
    ids: [paid.id],
    guards: {
      claims: `${count(refunds, 'key')}, so ${count(refunds, 'refund')}: each its own 202`,
      ledger: `1 refund reserved its ${money}, ${refunds - 1} failed (${reason}); the provider gave back once`,
      inbox: `of the one: ${describeInbox(refunded!)}`,
      webhook: `refund.succeeded: ${describeWebhook(refunded!)}, and refund.failed ${refunds - 1} times`,
    },
  };
}
