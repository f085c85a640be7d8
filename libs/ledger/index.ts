export * from './ledger.ts';
export * from './outbox.ts';
export * from './postgres/open-postgres-ledger.ts';
export * from './postgres/open-postgres-outbox.ts';
