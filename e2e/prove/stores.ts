import {
  type ClaimStore,
  claimStores,
  type LedgerStore,
  parseLedgerStore,
} from '@triplock/launcher';
import type { Campaign, PromiseFile } from './promises.ts';

/** The stores of one system that promises are tried on. */
export type Column = { claims: ClaimStore; ledger: LedgerStore };

/** What a column is called: by what is not the rule in it. */
export function columnName({ claims, ledger }: Column): string {
  return ledger === 'postgres' ? claims : `${claims}, ledger in ${ledger}`;
}

/** What was asked about the stores. */
type AskedStores = {
  /** Stores of claims and files, by commas. */
  only: string | undefined;
  ledger: string | undefined;
  /** Every store of claims with every ledger. */
  full: boolean;
};

/**
 * The systems to try, and the words of `--only` that name no store of claims. Where nothing is
 * said, `stores` tries every store of claims with a ledger in PostgreSQL, and the first one with
 * one in Spanner, too: a claim and a ledger know nothing of each other.
 *
 * @throws UsageError for an unknown ledger.
 */
export function chooseColumns(
  campaign: Campaign,
  { only, ledger, full }: AskedStores,
): { columns: readonly Column[]; rest: string[] } {
  const words = (only ?? '').split(',').map((word) => word.trim());
  const named = claimStores.filter((store) => words.includes(store));
  const rest = words.filter((word) => word !== '' && !claimStores.some((each) => each === word));
  const asked = parseLedgerStore(ledger);
  const [first] = claimStores;
  const stores = named.length > 0 ? named : campaign === 'stores' ? claimStores : [first];
  const on = (store: LedgerStore, some: readonly ClaimStore[]) =>
    some.map((claims): Column => ({ claims, ledger: store }));
  const onSpanner = on('spanner', full || named.length > 0 ? stores : [stores[0]]);
  const inPostgres = on('postgres', stores);
  if (asked === 'postgres') return { columns: inPostgres, rest };
  if (asked === 'spanner') return { columns: onSpanner, rest };
  if (campaign !== 'stores' && !full) return { columns: inPostgres, rest };
  return { columns: [...inPostgres, ...(full ? onSpanner : onSpanner.slice(0, 1))], rest };
}

/** What is tried on a system, and what is not and why. */
export type PlannedColumn = {
  column: Column;
  promises: readonly { file: PromiseFile; whyNot?: string }[];
};

/** Leaves out what does not apply to a system, or was tried on another where it is the same. */
export function planProof(
  columns: readonly Column[],
  files: readonly PromiseFile[],
): PlannedColumn[] {
  const triedOn = new Map<string, Column[]>(files.map(({ name }) => [name, []]));
  return columns.map((column) => ({
    column,
    promises: files.map((file) => {
      const tried = triedOn.get(file.name)!;
      const whyNot = file.whyNotOn[column.ledger] ?? whySame(file, column, tried);
      if (whyNot !== undefined) return { file, whyNot };
      tried.push(column);
      return { file };
    }),
  }));
}

/**
 * Why a promise is the same on a system where it was tried; nothing where it has to be tried here.
 */
function whySame(
  { sameOnClaims, sameOnLedgers }: PromiseFile,
  { claims, ledger }: Column,
  tried: readonly Column[],
): string | undefined {
  const same = tried.find(
    (other) =>
      (other.claims === claims || sameOnClaims !== undefined) &&
      (other.ledger === ledger || sameOnLedgers !== undefined),
  );
  if (same === undefined) return undefined;
  return same.claims === claims ? sameOnLedgers : sameOnClaims;
}
