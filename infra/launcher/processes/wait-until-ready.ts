import { setTimeout as delay } from 'node:timers/promises';
import { LauncherError } from '../launcher-error.ts';
import { lastLines } from './log-file.ts';
import type { Running } from './start-process.ts';

/** Long enough for a cold start on a busy machine with two slow cores. */
const readyWithinMs = 90_000;
const probeEveryMs = 100;

/**
 * Probes until the process answers.
 *
 * @throws LauncherError with its last log lines when it ends, or does not answer in time.
 */
export async function waitUntilReady(
  running: Running,
  probing: { probe: () => Promise<void>; signal: AbortSignal },
): Promise<void> {
  const deadline = Date.now() + readyWithinMs;
  for (;;) {
    const failure = await probing.probe().then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    probing.signal.throwIfAborted();
    const end = running.ended();
    if (end !== undefined) throw startFailed(running, `${end} before it was ready`);
    if (failure === undefined) return;
    if (Date.now() > deadline) {
      throw startFailed(running, `is not ready after ${readyWithinMs / 1000} s (${failure})`);
    }
    await delay(probeEveryMs, undefined, { signal: probing.signal });
  }
}

function startFailed({ record, log, logFrom }: Running, why: string): LauncherError {
  const lines = lastLines(log, { lines: 15, from: logFrom }).map((line) => `  ${line}`);
  return new LauncherError([`${record.name} ${why}`, ...lines, `  log: ${log}`].join('\n'));
}
