export * from './inbox.ts';
export * from './postgres/open-inbox.ts';
export * from './postgres/open-refused-messages.ts';
export * from './refused-messages.ts';
