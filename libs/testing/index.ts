export * from './builders.ts';
export * from './endpoints.ts';
export * from './eventually.ts';
export * from './free-port.ts';
export * from './test-database.ts';
export * from './test-namespace.ts';
export * from './test-subscription.ts';
export * from './test-topic.ts';
