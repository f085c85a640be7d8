import { claimStores, keepingStores, type KeepingStore } from '@triplock/claim-stores';
import { UsageError } from '@triplock/command';
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

/** The value of `--claims`, or of what else asks for it. */
export function parseClaimStore(
  text: string | undefined,
  asked = '--claims ',
): ClaimStore | undefined {
  if (text === undefined) return undefined;
  const store = keepingStores.find((each) => each === text);
  if (store === undefined) {
    throw new UsageError(`${asked}${text} is not known: it takes ${keepingStores.join(', ')}`);
  }
  return store;
}

/** The value of `--ledger`, or of what else asks for it. */
export function parseLedgerStore(
  text: string | undefined,
  asked = '--ledger ',
): LedgerStore | undefined {
  if (text === undefined) return undefined;
  const store = ledgerStoreNames.find((each) => each === text);
  if (store === undefined) {
    throw new UsageError(`${asked}${text} is not known: it takes ${ledgerStoreNames.join(' or ')}`);
  }
  return store;
}

/** The value of `--replicas`. */
export function parseReplicas(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = /^\d{1,3}$/.test(text) ? Number(text) : NaN;
  if (number >= 1 && number <= replicasMax) return number;
  throw new UsageError(`--replicas takes a whole number from 1 to ${replicasMax}, not '${text}'`);
}

/** The value of `--parts`. */
export function parseParts(text: string | undefined): RunMode | undefined {
  if (text === undefined || text === 'native' || text === 'docker') return text;
  throw new UsageError(`--parts ${text} is not known: it takes native or docker`);
}
