import { hash, randomBytes } from 'node:crypto';
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
  return hash('sha256', apiKey, 'buffer');
}

/** The same in base64, which Node makes faster than bytes: every request is known by it. */
export function nameOfApiKey(apiKey: string): string {
  return hash('sha256', apiKey, 'base64');
}

// 156 random bits: what is shown of a key makes the rest no easier to find.
const hiddenLength = 26;

/** What may be shown of a key, to recognise it: all but its last 26 characters. */
export function apiKeyPrefix(apiKey: string): string | null {
  return apiKey.length > hiddenLength ? apiKey.slice(0, -hiddenLength) : null;
}
