export { type StripeOptions } from './client.ts';
export { openStripeJournal, type JournalOptions } from './journal.ts';
export { openStripe } from './stripe.ts';
export { stripeProvider } from './stripe-provider.ts';
