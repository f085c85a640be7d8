import { count } from '@triplock/operator';
import type { Sight } from './sight.ts';

/** What happened at each guard, in one line each. */
export type Guards = { claims: string; ledger: string; inbox: string; webhook: string };

/** What guard 2 has of a payment. */
export function describeLedger({ ledger, entries, events }: Sight): string {
  const rows = `${count(ledger.length, 'row')} (${ledger.map(({ state }) => state).join(', ')})`;
  return `${rows}, ${count(entries.length, 'entry', 'entries')}, ${count(events.length, 'event')}`;
}

/** What guard 3 made of its event. */
export function describeInbox({ events }: Sight): string {
  const copies = events.reduce((sum, each) => sum + each.copies, 0);
  const rows = events.reduce((sum, each) => sum + each.inboxRows, 0);
  const deliveries = events.filter(({ delivery }) => delivery !== null).length;
  const kept = `${count(rows, 'inbox row')}, ${count(deliveries, 'delivery', 'deliveries')}`;
  return `${count(copies, 'copy', 'copies')} published, ${kept}`;
}

/** What the partner got. */
export function describeWebhook({ receipts }: Sight): string {
  const attempts = receipts.reduce((sum, each) => sum + each.attempts, 0);
  const signed = receipts.every(({ verified }) => verified) ? 'verified' : 'NOT verified';
  return `${count(receipts.length, 'webhook')}, signature ${signed}, ${count(attempts, 'attempt')}`;
}
