export * from './inbox.ts';
export * from './retention.ts';
export * from './postgres/postgres-inbox.ts';
