/** One owner's numbered DDL files. */
export type SpannerMigrationSet = {
  /** Names the set in the record, e.g. `ledger`. */
  owner: string;
  /** A folder of `NNNN-name.sql`. */
  folder: URL;
};

/** Every owner's migrations of a ledger's database, in the order they run. */
export const spannerMigrationSets: readonly SpannerMigrationSet[] = [
  { owner: 'ledger', folder: new URL('../migrations/', import.meta.url) },
];
