export * from './ledger.ts';
export * from './outbox.ts';
export * from './postgres/open-postgres-ledger.ts';
export * from './postgres/open-postgres-outbox.ts';
export * from './postgres/open-postgres-refunds.ts';
export * from './postgres/take-due.ts';
export * from './refunds.ts';
export * from './unfinished.ts';
