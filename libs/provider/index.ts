export * from './guard-provider.ts';
export * from './provider-error.ts';
export * from './provider.ts';
export * from './stripe/open-stripe.ts';
export * from './stripe/read-stripe-event.ts';
