import { formatMoney } from '@triplock/operator';
import { promised } from './broken-promise.ts';
import { describeInbox, describeWebhook } from './guards.ts';
import { askProvider, askProviderRefunds, describeProvider } from './provider.ts';
import type { Step } from './scenarios/scenario.ts';
import { newCardOrder, sendFirst, sendRefund } from './scenarios/send.ts';
import { promiseOneEffect, promiseOneFailure, promiseOneRefund, untilTold } from './sight.ts';

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
    system.tell(`${paid.partner.id} gives ${money} of the first one back`);

    const ids = [paid.id, declined.id, refund];
    const [charge, decline, gaveBack] = await Promise.all(ids.map((id) => untilTold(system, id)));
    promiseOneEffect(paid.id, charge!);
    promiseOneFailure('payment', { txnId: declined.id, sight: decline! });
    promiseOneRefund(refund, gaveBack!);
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
