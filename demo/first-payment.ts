import { formatSpan } from '@triplock/operator';
import { describeLife } from './store-places.ts';
import { describeInbox, describeWebhook } from './guards.ts';
import { recordsOf } from './scenarios/records.ts';
import type { Step } from './scenarios/scenario.ts';
import { newOrder, sendFirst } from './scenarios/send.ts';
import { promiseOneEffect, untilTold } from './sight.ts';

/** The story begins with nothing going wrong. */
export const firstPayment: Step = {
  name: 'payment',
  failure: 'no failure yet: from HTTP to a signed webhook',
  run: async (system) => {
    const accepted = await sendFirst(system, newOrder(system, 'payment'));
    const { id, sentAt } = accepted;
    const sight = await untilTold(system, id);
    promiseOneEffect(id, sight);
    const { partition, records } = await recordsOf(system, accepted);
    const claim = await system.claims.look(id);
    const { settledAt } = sight.ledger[0]!;
    const { deliveredAt } = sight.events[0]!;
    const after = (date: Date | null) => formatSpan(date === null ? 0 : +date - +sentAt);
    const where = `partition ${partition}, offset ${records[0]?.offset}`;
    return {
      ids: [id],
      guards: {
        claims: `new key: claimed, written to Kafka (${where}); the claim ${describeLife(claim)}`,
        ledger: `1 row, 1 balanced entry and 1 event in one commit, ${after(settledAt)} after the request`,
        inbox: describeInbox(sight),
        webhook: `${describeWebhook(sight)}, ${after(deliveredAt)} after the request`,
      },
    };
  },
};
