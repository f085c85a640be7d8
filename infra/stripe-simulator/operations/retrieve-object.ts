import type { Renderable } from '../render/render-record.ts';
import type { Account } from '../store/account.ts';
import { text, texts } from '../wire/param-kinds.ts';
import { readParams, refuse } from '../wire/read-params.ts';
import { resourceMissing } from '../wire/stripe-error.ts';
import { readExpand, renderExpanded } from './expand-object.ts';
import { ok, type Operation } from './operation.ts';

// A browser retrieves an intent with its client secret; with a secret key it is allowed and
// unneeded.
const params = { expand: texts, client_secret: text() };

/**
 * `GET /v1/<collection>/:id`, as https://docs.stripe.com/api/payment_intents/retrieve and the like.
 */
function retrieve(
  collection: string,
  kind: Renderable['kind'],
  find: (account: Account, id: string) => Renderable | undefined,
): Operation {
  return {
    name: `${collection}.retrieve`,
    method: 'GET',
    path: `/v1/${collection}/:id`,
    prepare({ account }, call) {
      const read = readParams(call.params, params);
      if (read.outcome === 'refused') return read;
      const record = find(account, call.id);
      if (record === undefined) return refuse(resourceMissing({ kind, id: call.id }));
      const expand = readExpand(kind, read.value.expand);
      if (expand.outcome === 'refused') return expand;
      const run = () => ({ answer: () => ok(renderExpanded(account, record, expand.value)) });
      return { outcome: 'ready', run };
    },
  };
}

/** What can be read by its id. */
export const retrievals: readonly Operation[] = [
  retrieve('payment_intents', 'payment_intent', (account, id) => account.paymentIntents.get(id)),
  retrieve('charges', 'charge', (account, id) => account.charges.get(id)),
  retrieve('refunds', 'refund', (account, id) => account.refunds.get(id)),
  retrieve('payment_methods', 'payment_method', (account, id) => account.paymentMethods.get(id)),
  retrieve('events', 'event', (account, id) => account.events.get(id)),
];
