export { openGiro } from './giro.ts';
export { giroProvider } from './giro-provider.ts';
export { openGiroJournal } from './journal.ts';
