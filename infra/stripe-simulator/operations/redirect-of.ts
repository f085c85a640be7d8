import type { Redirect } from '../records/records.ts';
import type { Desk } from './operation.ts';

/**
 * The page at which the customer of this intent authenticates, when there is somewhere to return
 * to.
 */
export function redirectOf(desk: Desk, id: string, returnUrl: string | null): Redirect | null {
  if (returnUrl === null) return null;
  return { url: `${desk.publicUrl()}/_simulator/authenticate/${id}`, returnUrl };
}
