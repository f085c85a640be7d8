export { spannerLedgerStore } from './store.ts';
