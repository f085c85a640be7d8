import {
  claimStores,
  parseLedgerStore,
  type ClaimStore,
  type LedgerStore,
} from '@triplock/launcher';
import type { Campaign } from './choose-files.ts';

/** The stores of one system that promises are tried on. */
export type Column = { claims: ClaimStore; ledger: LedgerStore };

/** What a column is called: by what is not the rule in it. */
export function columnName({ claims, ledger }: Column): string {
  return ledger === 'postgres' ? claims : `${claims}, ledger in ${ledger}`;
}

/** What was said of the stores. */
export type AskedStores = {
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
