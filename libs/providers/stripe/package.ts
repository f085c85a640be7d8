import { createRequire } from 'node:module';
import type Stripe from 'stripe';

const require = createRequire(import.meta.url);

/**
 * The official package, which is loaded when it is first needed: of all that import this folder,
 * for what it says of providers, few ever ask Stripe, and it is a sixth of a second of their start.
 */
export const stripePackage = (): typeof Stripe => require('stripe') as typeof Stripe;
