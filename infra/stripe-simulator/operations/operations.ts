import { cancelPaymentIntent } from './cancel-payment-intent.ts';
import { confirmPaymentIntent } from './confirm-payment-intent.ts';
import { createPaymentIntent } from './create-payment-intent.ts';
import { createRefund } from './create-refund.ts';
import { lists } from './list-objects.ts';
import type { Operation } from './operation.ts';
import { retrievals } from './retrieve-object.ts';
import { searchPaymentIntents } from './search-payment-intents.ts';
import { updatePaymentIntent } from './update-payment-intent.ts';

/** All of the API that is simulated. Anything else is 404, as an unknown URL is at Stripe. */
export const operations: readonly Operation[] = [
  createPaymentIntent,
  updatePaymentIntent,
  confirmPaymentIntent,
  cancelPaymentIntent,
  searchPaymentIntents,
  createRefund,
  ...retrievals,
  ...lists,
];
