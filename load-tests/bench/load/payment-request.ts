/** What makes a request unique: the run of the bench, and its number in it. */
export type RequestNumber = { run: string; number: number };

/** The idempotency key of a request. Nobody used it before: `run` is random. */
export function keyOf({ run, number }: RequestNumber): string {
  return `bench-${run}-${padded(number)}`;
}

/**
 * A book transfer as a shop would send it: every text that a payment may have, at a usual length.
 * All are equally long, so that no run has more to read than another.
 */
export function bodyOf({ run, number }: RequestNumber): string {
  const order = padded(number);
  return JSON.stringify({
    amount: 2_500,
    currency: 'EUR',
    reference: `order-${run}-${order}`,
    description: 'Two tickets for the evening of the 14th, row 7',
    metadata: { order_id: order, customer: 'c-104277', channel: 'web' },
  });
}

function padded(number: number): string {
  return String(number).padStart(8, '0');
}
