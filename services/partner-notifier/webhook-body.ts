import type { PaymentEvent } from '@triplock/contracts';

/**
 * The body of an event's webhook: `{ type, timestamp, sequence?, data }`, unchanged from the event.
 * It is made once and stored, so every attempt sends the same bytes.
 */
export function webhookBody({ type, timestamp, sequence, data }: PaymentEvent): string {
  return JSON.stringify({ type, timestamp, sequence, data });
}
