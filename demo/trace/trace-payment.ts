import type { Endpoints } from '@triplock/infra';
import type { TxnId } from '@triplock/payments';
import type { ClaimSeen } from '@triplock/testing';
import { lookAt, type Sight } from '../sight.ts';
import type { System } from '../system.ts';
import { readRecords, type RecordsSeen } from './read-records.ts';

/** One payment as every layer has it now. */
export type PaymentTrace = Sight & {
  txnId: TxnId;
  /** Which store keeps claims. */
  claims: Endpoints['claims'];
  claim: ClaimSeen | undefined;
  kafka: RecordsSeen;
};

const dayMs = 86_400_000;

/** Looks a payment up in every layer; nothing when none of them knows it. */
export async function tracePayment(
  system: System,
  txnId: TxnId,
): Promise<PaymentTrace | undefined> {
  const [sight, claim] = await Promise.all([lookAt(system, txnId), system.claims.look(txnId)]);
  // A payment that only Kafka has was accepted within the life of its claim.
  const since = sight.ledger[0]?.createdAt ?? claim?.acceptedAt ?? new Date(Date.now() - dayMs);
  const query = { topic: system.names.acceptedTopic, key: txnId, since };
  const kafka = await readRecords(system.kafka, query);
  const { claims } = system.endpoints;
  const nowhere =
    claim === undefined &&
    kafka.records.length === 0 &&
    sight.ledger.length === 0 &&
    sight.deadLetters.length === 0;
  return nowhere ? undefined : { txnId, claims, claim, kafka, ...sight };
}
