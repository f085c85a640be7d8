import { createHmac } from 'node:crypto';

/**
 * A role's password, derived from the superuser's, so that everybody who sets up databases on one
 * server comes to the same and none locks another's services out: roles belong to the server, not
 * to a database.
 */
export function rolePassword(superuserUrl: string, role: string): string {
  const secret = decodeURIComponent(new URL(superuserUrl).password) || superuserUrl;
  return createHmac('sha256', secret).update(role).digest('base64url');
}
