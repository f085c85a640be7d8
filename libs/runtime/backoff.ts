/** Exponential backoff with full jitter between half and whole; milliseconds. */
export function backoffMs(attempt: number, limits: { firstMs: number; maxMs: number }): number {
  const whole = Math.min(limits.maxMs, limits.firstMs * 2 ** Math.min(attempt, 30));
  return whole / 2 + (Math.random() * whole) / 2;
}
