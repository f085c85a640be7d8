import { count } from '@triplock/operator';
import { fired, promised } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { askProvider, describeProvider, withProviderFault } from '../provider.ts';
import { promiseOneEffect, untilTold, type Sight } from '../sight.ts';
import type { System } from '../system.ts';
import { promiseOneRecord } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newCardOrder, sendFirst, type Accepted } from './send.ts';

/** A time-out is not a failure, and not a reason to charge again: the intent knows. */
export const chargeTimedOut: Scenario = {
  name: 'charge-timed-out',
  failure: 'the provider charges the card, then times out',
  absorbedBy: 'guard 2: unknown is not failed; the stored intent says that it was charged',
  run,
};

// Longer than the worker waits for an answer.
const fault = {
  fault: 'time-out',
  operation: 'payment_intents.confirm',
  count: 1,
  delayMs: 15_000,
};

async function run(system: System): Promise<Observation> {
  let accepted: Accepted | undefined;
  let sight: Sight | undefined;
  const timeouts = await withProviderFault(system, fault, async () => {
    accepted = await sendFirst(system, newCardOrder(system, 'charge-timed-out'));
    sight = await untilTold(system, accepted.id);
  });
  fired('the provider answered in time', timeouts === 1);
  const { id } = accepted!;
  const provider = await askProvider(system, id);
  system.tell(`${count(timeouts, 'answer')} to a charge never came; ${describeProvider(provider)}`);
  promised('a card is charged once', provider.charges.length === 1, { ids: [id], saw: provider });
  promiseOneEffect(id, sight!);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${await promiseOneRecord(system, accepted!)}`,
      ledger: `read the stored intent instead of charging again; ${describeLedger(sight!)}`,
      inbox: describeInbox(sight!),
      webhook: describeWebhook(sight!),
    },
  };
}
