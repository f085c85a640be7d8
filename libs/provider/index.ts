export * from './circuit-breaker.ts';
export * from './declaration.ts';
export * from './failures.ts';
export * from './pace.ts';
export * from './provider-journal.ts';
export * from './provider.ts';
