export * from './once-database.ts';
export * from './once-under-test.ts';
