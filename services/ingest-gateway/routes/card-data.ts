import { findCardData, Problem, readIdempotencyKey } from '@triplock/contracts';
import {
  hasCardNumber,
  type IdempotencyKey,
  type JsonObject,
  type PartnerId,
} from '@triplock/payments';
import type { FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectFields } from '../http/problems.ts';

/*
 * Card numbers stay out of this system: whoever stores them has the duties of PCI DSS for every
 * place that they come to. What is refused here was in this process's memory and nowhere else: it
 * is refused before the claim, the record and the span, and the answer does not repeat it.
 */

/**
 * The idempotency key of a request.
 *
 * @throws Problem `idempotency_key_missing` or `idempotency_key_invalid`, the latter also when it
 * could be a card's number and the partner may not send what only looks like one.
 */
export function readKey(
  { cardNumbersAllowed }: Gateway,
  { partnerId, raw }: FastifyRequest,
): IdempotencyKey {
  const key = readIdempotencyKey(raw.rawHeaders);
  if (!hasCardNumber(key) || cardNumbersAllowed.has(partnerId)) return key;
  throw new Problem(
    'idempotency_key_invalid',
    'The key looks like the number of a payment card, which is not kept here. Use a random one.',
  );
}

/** @throws Problem `invalid_request` that points at each text that could be a card's. */
export function refuseCardData(
  { cardNumbersAllowed }: Gateway,
  partnerId: PartnerId,
  body: JsonObject,
): void {
  if (cardNumbersAllowed.has(partnerId)) return;
  const found = findCardData(body);
  if (found.length > 0) throw incorrectFields(found);
}
