import { fired, promised } from '../broken-promise.ts';
import { describeInbox, describeLedger, describeWebhook } from '../guards.ts';
import { askProvider, describeProvider } from '../provider.ts';
import { promiseOneFailure, untilTold } from '../sight.ts';
import type { System } from '../system.ts';
import { promiseOneRecord } from './records.ts';
import type { Observation, Scenario } from './scenario.ts';
import { newCardOrder, promiseReplay, send, sendFirst, tellAnswer, type Accepted } from './send.ts';

/** A decline is an end like any other: the key stands for it, and a new try needs a new key. */
export const declinedThenRetried: Scenario = {
  name: 'declined-then-retried',
  failure: 'a card is declined, and the partner sends the same payment again',
  absorbedBy: 'guard 1: the same 202 again; GET and the webhook say that it failed',
  run,
};

const reason = 'insufficient_funds';

async function run(system: System): Promise<Observation> {
  const card = 'pm_card_chargeDeclinedInsufficientFunds';
  const first = await sendFirst(system, newCardOrder(system, 'declined-then-retried', card));
  const { id } = first;
  await untilTold(system, id);
  const declined = await askProvider(system, id);
  fired('the card was charged', declined.charges.length === 0);
  system.tell(`the bank says no (${reason}): ${describeProvider(declined)}`);

  const { answer: again } = await send(system, first);
  tellAnswer(system, 'the same again', again);
  promiseReplay(first, again);
  const failure = await readFailure(first);
  system.tell(`GET says failed, ${failure}`);
  promised('a decline is told with its reason', failure === reason, { ids: [id], saw: failure });

  const sight = await untilTold(system, id);
  promiseOneFailure('payment', { txnId: id, sight });
  const after = await askProvider(system, id);
  const same = JSON.stringify(after) === JSON.stringify(declined);
  promised('a retry asks the provider nothing', same, { ids: [id], saw: after });
  return {
    ids: [id],
    guards: {
      claims: `gave the retry the same bytes: ${await promiseOneRecord(system, first)}`,
      ledger: `failed once and for ever; ${describeLedger(sight)}`,
      inbox: describeInbox(sight),
      webhook: `payment.failed: ${describeWebhook(sight)}`,
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
