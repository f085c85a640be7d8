import type { EventId, TxnId } from '@triplock/payments';
import { Type } from 'typebox';
import { listQueryParser } from './list-query.ts';
import { paymentListQuerySchema } from './payment-list-query.ts';
import { txnIdSchema } from './payment-schemas.ts';
import { webhookDeliveryStates } from './webhook-schemas.ts';

/** The query of `GET /v1/webhook-deliveries`; what validates is what the OpenAPI document shows. */
export const webhookDeliveryListQuerySchema = Type.Object(
  {
    limit: paymentListQuerySchema.properties.limit,
    starting_after: Type.Optional(
      Type.Unsafe<EventId>({
        ...txnIdSchema,
        description: 'the id of a delivery of yours from a page before',
      }),
    ),
    status: Type.Optional(
      Type.Unsafe<(typeof webhookDeliveryStates)[number]>({
        type: 'string',
        enum: webhookDeliveryStates,
        description: 'pending, delivered or failed',
      }),
    ),
    txn_id: Type.Optional(
      Type.Unsafe<TxnId>({ ...txnIdSchema, description: 'the id of a payment or refund' }),
    ),
  },
  { additionalProperties: false },
);

/** Parses the query of `GET /v1/webhook-deliveries`, without its `?`. */
export const parseWebhookDeliveryListQuery = listQueryParser(webhookDeliveryListQuerySchema);
