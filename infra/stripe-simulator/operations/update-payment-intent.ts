import type { PaymentIntentRecord } from '../records/records.ts';
import { mergeMetadata, texts } from '../wire/param-kinds.ts';
import { readParams } from '../wire/read-params.ts';
import { readExpand, renderExpanded } from './expand-object.ts';
import { findIntent } from './find-intent.ts';
import { describingParams } from './intent-params.ts';
import { ok, type Operation } from './operation.ts';

const params = { ...describingParams, expand: texts };

/**
 * https://docs.stripe.com/api/payment_intents/update, for what describes an intent: in any state.
 * Amount, currency and payment method are refused as unknown, since changing them is not simulated.
 */
export const updatePaymentIntent: Operation = {
  name: 'payment_intents.update',
  method: 'POST',
  path: '/v1/payment_intents/:id',
  prepare(desk, call) {
    const read = readParams(call.params, params);
    if (read.outcome === 'refused') return read;
    const { metadata, description, transfer_group, statement_descriptor_suffix } = read.value;
    const found = findIntent(desk, call.id);
    if (found.outcome === 'refused') return found;
    const expand = readExpand('payment_intent', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const run = () => {
      const before = desk.account.paymentIntents.get(call.id)!;
      const intent: PaymentIntentRecord = {
        ...before,
        metadata: mergeMetadata(before.metadata, metadata),
        description: description ?? before.description,
        transferGroup: transfer_group ?? before.transferGroup,
        statementDescriptorSuffix: statement_descriptor_suffix ?? before.statementDescriptorSuffix,
      };
      const answer = () => ok(renderExpanded(desk.account, intent, expand.value));
      return { change: { paymentIntents: [intent] }, answer };
    };
    return { outcome: 'ready', run };
  },
};
