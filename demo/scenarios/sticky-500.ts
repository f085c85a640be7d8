import { fired, promised } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { askProvider, describeProvider, withProviderFault } from '../provider.ts';
import { promiseOneEffect, untilTold, type Sight } from '../sight.ts';
import type { System } from '../system.ts';
import { promiseOneRecord } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newCardOrder, sendFirst, type Accepted } from './send.ts';

/**
 * Asking for ever under one key brings the same 500 for ever; another key alone may charge twice.
 */
export const sticky500: Scenario = {
  name: 'sticky-500',
  failure: 'the provider answers 500 to a charge, and keeps that as its answer to the key',
  absorbedBy: 'guard 2: the stored intent is read; only one that charged nobody is confirmed anew',
  run,
};

const fault = { fault: 'error', operation: 'payment_intents.confirm', count: 1 };

async function run(system: System): Promise<Observation> {
  let accepted: Accepted | undefined;
  let sight: Sight | undefined;
  const errors = await withProviderFault(system, fault, async () => {
    accepted = await sendFirst(system, newCardOrder(system, 'sticky-500'));
    sight = await untilTold(system, accepted.id);
  });
  fired('the provider did not fail', errors === 1);
  const { id } = accepted!;
  const provider = await askProvider(system, id);
  system.tell(`the first answer was a 500, and is kept; ${describeProvider(provider)}`);
  promised('a card is charged once', provider.charges.length === 1, { ids: [id], saw: provider });
  const one = provider.intents.length === 1;
  promised('a charge is tried on one intent', one, { ids: [id], saw: provider });
  promiseOneEffect(id, sight!);
  return {
    ids: [id],
    guards: {
      claims: `not asked again: the partner has its 202; ${await promiseOneRecord(system, accepted!)}`,
      ledger: `saw the intent unconfirmed and confirmed it under the next key; ${describeLedger(sight!)}`,
      inbox: describeInbox(sight!),
      webhook: describeWebhook(sight!),
    },
  };
}
