import { readFileSync } from 'node:fs';

const lua = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');
const marker = lua('warm-marker.lua');

/**
 * The atomic steps by the name they are called by. Each file opens with its contract. Read once at
 * import, so that a missing file fails the boot and not a payment.
 */
export const scripts = {
  claimRecord: { lua: marker + lua('claim.lua'), numberOfKeys: 2 },
  completeRecord: { lua: lua('complete.lua'), numberOfKeys: 1 },
  releaseRecord: { lua: lua('release.lua'), numberOfKeys: 1 },
  readRecord: { lua: marker + lua('read.lua'), numberOfKeys: 2 },
  noteLoss: { lua: marker + lua('note-loss.lua'), numberOfKeys: 1 },
  setBarrier: { lua: lua('set-barrier.lua'), numberOfKeys: 1 },
  markBucketCold: { lua: lua('mark-cold.lua'), numberOfKeys: 1 },
} as const;
export type ScriptName = keyof typeof scripts;
