export * from './guard-provider.ts';
export * from './provider-books.ts';
export * from './provider-error.ts';
export * from './provider.ts';
export { type StripeOptions } from './stripe/open-client.ts';
export * from './stripe/open-stripe-books.ts';
export * from './stripe/open-stripe.ts';
export * from './stripe/read-stripe-event.ts';
