import { formatMoney, formatSpan } from '@triplock/operator';
import {
  describeInbox,
  describeLifetime,
  describeWebhook,
  promiseOneEffect,
  promiseOneFailure,
  untilDelivered,
} from '../effects.ts';
import { newCardOrder, newOrder, recordsOf, sendFirst, sendRefund } from '../orders.ts';
import { promised } from '../promises.ts';
import { askProvider, askProviderRefunds, describeProvider } from '../provider.ts';
import type { Step } from '../run-scenario.ts';

/** The story begins with nothing going wrong. */
export const firstPayment: Step = {
  name: 'payment',
  failure: 'no failure yet: from HTTP to a signed webhook',
  run: async (system) => {
    const accepted = await sendFirst(system, newOrder(system, 'payment'));
    const { id, sentAt } = accepted;
    const seen = await untilDelivered(system, id);
    promiseOneEffect(id, seen);
    const { partition, records } = await recordsOf(system, accepted);
    const claim = await system.claims.look(id);
    const { settledAt } = seen.ledger[0]!;
    const { deliveredAt } = seen.events[0]!;
    const after = (date: Date | null) => formatSpan(date === null ? 0 : +date - +sentAt);
    const where = `partition ${partition}, offset ${records[0]?.offset}`;
    return {
      ids: [id],
      guards: {
        claims: `new key: claimed, written to Kafka (${where}); the claim ${describeLifetime(claim)}`,
        ledger: `1 row, 1 balanced entry and 1 event in one commit, ${after(settledAt)} after the request`,
        inbox: describeInbox(seen),
        webhook: `${describeWebhook(seen)}, ${after(deliveredAt)} after the request`,
      },
    };
  },
};

/** What cards add to the story, before anything goes wrong with them. */
export const cardPayments: Step = {
  name: 'cards',
  failure: 'no failure yet: a card is charged, one is declined, and money is given back',
  run: async (system) => {
    const declinedCard = 'pm_card_chargeDeclinedInsufficientFunds';
    const paid = await sendFirst(system, newCardOrder(system, 'cards'));
    const declined = await sendFirst(system, newCardOrder(system, 'cards', declinedCard));
    const amount = (paid.body.amount * 4) / 10;
    const money = formatMoney(amount, paid.body.currency);
    const refund = await sendRefund(system, paid, { amount });
    system.report(`${paid.partner.id} gives ${money} of the first one back`);

    const ids = [paid.id, declined.id, refund];
    const [charge, decline, gaveBack] = await Promise.all(
      ids.map((id) => untilDelivered(system, id)),
    );
    promiseOneEffect(paid.id, charge!);
    promiseOneFailure('payment', { txnId: declined.id, seen: decline! });
    promiseOneEffect(refund, gaveBack!, 'refund');
    const atProvider = await askProvider(system, paid.id);
    const returned = await askProviderRefunds(system, [refund]);
    const once = atProvider.charges.length === 1 && returned.length === 1 && returned[0] === amount;
    promised('charged once, given back once', once, { ids, saw: { atProvider, returned } });
    return {
      ids,
      guards: {
        claims: '3 new keys, 3 records; the refund is in the partition of its payment, behind it',
        ledger: `intent stored, then confirmed: ${describeProvider(atProvider)}; the decline moved no money; ${money} given back once`,
        inbox: `of the refund: ${describeInbox(gaveBack!)}`,
        webhook: `payment.succeeded, payment.failed, refund.succeeded: the last in ${describeWebhook(gaveBack!)}`,
      },
    };
  },
};
