export * from './access.ts';
export * from './durability.ts';
export * from './load-sql.ts';
export * from './migrate.ts';
export * from './migration-sets.ts';
export * from './pool.ts';
export * from './session-limits.ts';
