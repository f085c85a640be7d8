import type { Authentication } from './partners.ts';

/** What was last heard about a key, and until when it is taken as it is. */
export type RememberedKey = { said: Authentication; trustedUntilMs: number };

/** What was heard about keys, the longest unused forgotten first. */
export type KeyMemory = {
  get(keyHash: string): RememberedKey | undefined;
  set(keyHash: string, remembered: RememberedKey): void;
  delete(keyHash: string): void;
  isEmpty(): boolean;
};

/** A memory of at most `keysMax` keys, so that a flood of made-up keys costs a bounded amount. */
export function createKeyMemory(keysMax: number): KeyMemory {
  // A Map keeps the order of insertion; what is used is put in again at its end.
  const keys = new Map<string, RememberedKey>();
  const put = (keyHash: string, remembered: RememberedKey) => {
    keys.delete(keyHash);
    keys.set(keyHash, remembered);
  };
  return {
    get(keyHash) {
      const remembered = keys.get(keyHash);
      if (remembered !== undefined) put(keyHash, remembered);
      return remembered;
    },
    set(keyHash, remembered) {
      put(keyHash, remembered);
      if (keys.size > keysMax) keys.delete(keys.keys().next().value!);
    },
    delete: (keyHash) => void keys.delete(keyHash),
    isEmpty: () => keys.size === 0,
  };
}
