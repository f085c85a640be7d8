import type { Stripe } from 'stripe';
import type { EventRecord, PaymentMethodRecord, ShownRecord } from '../records/records.ts';
import { apiVersion } from '../wire/api-version.ts';
import { renderCharge } from './render-charge.ts';
import { renderPaymentIntent } from './render-payment-intent.ts';
import { renderPaymentMethod } from './render-payment-method.ts';
import { renderRefund } from './render-refund.ts';
import { seconds } from './seconds.ts';

export type Renderable = ShownRecord | PaymentMethodRecord | EventRecord;
export type Rendered =
  Stripe.PaymentIntent | Stripe.Charge | Stripe.Refund | Stripe.PaymentMethod | RenderedEvent;
/** An event before the package's types tell its kinds apart. */
export type RenderedEvent = Stripe.EventBase;

/** A record as the API shows it. The same record always gives the same bytes. */
export function renderRecord(record: Renderable): Rendered {
  switch (record.kind) {
    case 'payment_intent':
      return renderPaymentIntent(record);
    case 'charge':
      return renderCharge(record);
    case 'refund':
      return renderRefund(record);
    case 'payment_method':
      return renderPaymentMethod(record);
    case 'event':
      return renderEvent(record);
  }
}

/** https://docs.stripe.com/api/events/object */
export function renderEvent(record: EventRecord): RenderedEvent {
  return {
    id: record.id,
    object: 'event',
    api_version: apiVersion,
    created: seconds(record.created),
    data: { object: renderRecord(record.object) },
    livemode: false,
    // How many endpoints have not taken it yet is nothing a consumer may rely on: always one.
    pending_webhooks: 1,
    request: {
      id: record.request?.id ?? null,
      idempotency_key: record.request?.idempotencyKey ?? null,
    },
    type: record.type as Stripe.Event.Type,
  };
}
