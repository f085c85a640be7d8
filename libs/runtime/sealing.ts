import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Setting } from './settings.ts';

/**
 * A text as it is stored: AES-256-GCM (NIST SP 800-38D) under the key called `key`, bound to what
 * it is about, so that a row copied elsewhere opens for nobody.
 */
export type SealedText = {
  key: string;
  /** In base64: 12 random bytes, what was encrypted, and its tag of 16 bytes. */
  box: string;
};

/** The keys that texts are sealed with: the newest seals, all of them open. */
export type SealingKeys = {
  /** The id of the key that seals. */
  newest: string;
  /** Whether a key of that id is among these. */
  has(key: string): boolean;
  seal(boundTo: string, text: string): SealedText;
  /** @throws when the key is not among these, or what is stored is not what was sealed. */
  open(boundTo: string, sealed: SealedText): string;
};

/** What is stored cannot be opened here. It shows neither the text nor the key. */
class UnopenedError extends Error {
  override name = 'UnopenedError';
}

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const keyForm = /^([A-Za-z0-9][\w.-]{0,63}):([A-Za-z0-9+/]{43}=)$/;

/** `ID:KEY` of each key, the newest first, one on a line or separated by commas. */
export const sealingKeys: Setting<SealingKeys> = {
  expected: 'ID:KEY on a line for each key, the newest first, KEY being 32 bytes in base64',
  parse(text) {
    const keys = new Map<string, Buffer>();
    for (const line of text.split(/[\n,]/).filter((each) => each.trim() !== '')) {
      const [, id, key] = keyForm.exec(line.trim()) ?? [];
      if (id === undefined || key === undefined || keys.has(id)) return undefined;
      keys.set(id, Buffer.from(key, 'base64'));
    }
    return keys.size === 0 ? undefined : createSealingKeys(keys);
  },
};

/** A line for a new key; the id is the day it was made on, in UTC, and 32 random bits. */
export function generateSealingKey(now = new Date()): string {
  const id = `${now.toISOString().slice(0, 10)}-${randomBytes(4).toString('hex')}`;
  return `${id}:${randomBytes(keyBytes).toString('base64')}`;
}

function createSealingKeys(keys: ReadonlyMap<string, Buffer>): SealingKeys {
  const [[newest, newestKey]] = [...keys] as [[string, Buffer]];
  return {
    newest,
    has: (key) => keys.has(key),
    seal(boundTo, text) {
      // Random: a key seals far less than the 2^32 times for which that is safe.
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', newestKey, nonce).setAAD(Buffer.from(boundTo));
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      const box = Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64');
      return { key: newest, box };
    },
    open(boundTo, { key, box }) {
      const secretKey = keys.get(key);
      if (secretKey === undefined) throw new UnopenedError(`the key ${key} is missing here`);
      const bytes = Buffer.from(box, 'base64');
      const nonce = bytes.subarray(0, nonceBytes);
      try {
        const authTagLength = tagBytes;
        const decipher = createDecipheriv('aes-256-gcm', secretKey, nonce, { authTagLength });
        decipher.setAAD(Buffer.from(boundTo)).setAuthTag(bytes.subarray(-tagBytes));
        const sealed = bytes.subarray(nonceBytes, -tagBytes);
        return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8');
      } catch (cause) {
        throw new UnopenedError('it is not what was sealed', { cause });
      }
    },
  };
}
