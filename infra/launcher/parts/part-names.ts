import type { ClaimPart } from '@triplock/claim-stores';
import type { LedgerPart } from '@triplock/ledgers';

const usualPartNames = ['redis', 'kafka', 'postgres', 'pubsub'] as const;

/** The servers that the services always stand on. */
export type UsualPartName = (typeof usualPartNames)[number];

/** Servers that are started only when asked for, and then stay. */
export type OptionalPartName = Exclude<ClaimPart | LedgerPart, UsualPartName>;

/** Whether a server is started only when asked for. */
export function isOptional(name: PartName): name is OptionalPartName {
  return !usualPartNames.some((each) => each === name);
}

/** The servers that the services stand on. */
export type PartName = UsualPartName | ClaimPart | LedgerPart;
