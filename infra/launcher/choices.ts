import { claimStores, keepingStores, type KeepingStore } from '@triplock/claim-stores';
import { oneOf, wholeNumber } from '@triplock/command';
import { ledgerStoreNames, partsOfLedger, type LedgerStoreName } from '@triplock/ledgers';
import { isOptional, type OptionalPartName } from './parts/part-names.ts';

/** Where the gateways keep their claims. */
export type ClaimStore = KeepingStore;

export { keepingStores as claimStores };

/** Where the ledger and its outbox are kept. */
export type LedgerStore = LedgerStoreName;

export { ledgerStoreNames as ledgerStores };

/** The stores of a system; absent where nobody has chosen yet. */
export type Stores = { claims?: ClaimStore; ledger?: LedgerStore };

/** Whether a system runs as processes or in containers. */
export type RunMode = 'native' | 'docker';

/** Admin ports lie this far apart, which bounds the replicas that get successive ones. */
export const replicasMax = 10;

/** The parts that stores need beside the usual ones. */
export function partsForStores({ claims, ledger }: Stores): OptionalPartName[] {
  const forClaims = claims === undefined ? [] : claimStores[claims].parts;
  const forLedger = ledger === undefined ? [] : partsOfLedger(ledger);
  return [...new Set([...forClaims, ...forLedger])].filter((part) => isOptional(part));
}

/** A store for claims, where `what` asks for one. */
export function parseClaimStore(
  text: string | undefined,
  what = '--claims',
): ClaimStore | undefined {
  return text === undefined ? undefined : oneOf(text, { what, words: keepingStores });
}

/** A store for the ledger, where `what` asks for one. */
export function parseLedgerStore(
  text: string | undefined,
  what = '--ledger',
): LedgerStore | undefined {
  return text === undefined ? undefined : oneOf(text, { what, words: ledgerStoreNames });
}

/** The value of `--replicas`. */
export function parseReplicas(text: string | undefined): number | undefined {
  return wholeNumber(text, { option: 'replicas', min: 1, max: replicasMax });
}

/** The value of `--parts`. */
export function parseParts(text: string | undefined): RunMode | undefined {
  const words = ['native', 'docker'] as const;
  return text === undefined ? undefined : oneOf(text, { what: '--parts', words });
}
