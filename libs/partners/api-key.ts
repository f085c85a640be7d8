import { createHash, randomBytes } from 'node:crypto';
import type { PartnerId } from '@triplock/payments';

/** Longer texts are refused without being looked up: no key of ours is near this. */
export const apiKeyLengthMax = 256;

/**
 * A new API key, `tl_<partner>_<24 random bytes>`. The partner's name in it is for people; what
 * proves it is the whole text.
 */
export function generateApiKey(partnerId: PartnerId): string {
  return `tl_${partnerId}_${randomBytes(24).toString('base64url')}`;
}

/** What is stored and compared instead of a key. */
export function hashApiKey(apiKey: string): Buffer {
  return createHash('sha256').update(apiKey, 'utf8').digest();
}
