import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { partsCache } from '../home.ts';
import { withLock } from '../lock.ts';
import type { Session } from '../session.ts';

/**
 * A folder of the parts cache, filled the first time. It appears under its name only when `fill`
 * has finished, so a fetch that was cut off leaves nothing that looks fetched. Launchers of several
 * homes take turns.
 */
export async function cached(
  session: Session,
  entry: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(partsCache, entry);
  if (existsSync(folder)) return folder;
  mkdirSync(partsCache, { recursive: true });
  await withLock(join(partsCache, 'lock'), session, async () => {
    if (existsSync(folder)) return;
    const filling = mkdtempSync(join(partsCache, 'fetching-'));
    try {
      await fill(filling);
      // Root has PostgreSQL run as another user, who must be able to enter.
      chmodSync(filling, 0o755);
      renameSync(filling, folder);
    } finally {
      await rm(filling, { recursive: true, force: true });
    }
  });
  return folder;
}
