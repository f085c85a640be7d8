/** Stripe's timestamps are whole seconds since 1970. */
export function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}
