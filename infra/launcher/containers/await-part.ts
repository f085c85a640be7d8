import { setTimeout as delay } from 'node:timers/promises';
import { LauncherError } from '../launcher-error.ts';
import { allParts } from '../parts/all-parts.ts';
import type { OptionalPartName } from '../parts/part.ts';

/** An emulator starts for some seconds, on a busy machine for more. */
const answersWithinMs = 60_000;
const askAgainMs = 250;

/**
 * Waits for a part whose image has nothing to ask it with, so that no health check can.
 *
 * @throws LauncherError when it does not answer, mostly because its profile was not asked for.
 */
export async function awaitPart(
  name: OptionalPartName,
  address: string,
  withinMs = answersWithinMs,
): Promise<void> {
  const part = allParts.find((each) => each.name === name)!;
  const deadline = performance.now() + withinMs;
  for (;;) {
    try {
      return await part.probe(address);
    } catch (error) {
      if (performance.now() < deadline) {
        await delay(askAgainMs);
        continue;
      }
      const why = `${part.title} does not answer at ${address}`;
      throw new LauncherError(`${why}: docker compose --profile ${name} up brings it`, {
        cause: error,
      });
    }
  }
}
