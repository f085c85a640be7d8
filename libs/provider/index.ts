export * from './circuit-breaker.ts';
export * from './expressible.ts';
export * from './provider-journal.ts';
export * from './provider.ts';
export { type StripeOptions } from './stripe/client.ts';
export { openStripeJournal, type JournalOptions } from './stripe/journal.ts';
export { openStripe } from './stripe/stripe.ts';
export * from './stripe/webhooks.ts';
