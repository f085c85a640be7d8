import { findMarkedProcesses, withDescendants } from './processes/find-processes.ts';
import { isSameProcess, startTimeOf } from './processes/identity.ts';
import { stopProcess } from './processes/signal-process.ts';
import { forget, type Session } from './session.ts';

// PostgreSQL takes SIGINT for "now, cleanly"; every other process of ours takes it for "end".
const strayStop = { signal: 'SIGINT', withinMs: 5_000 } as const;

/**
 * Brings records and processes together after a launcher that was killed: forgets what is gone, and
 * ends what carries the home's mark without being recorded. Nothing else is touched.
 */
export async function removeStrays(session: Session): Promise<void> {
  for (const record of Object.values(session.state.processes)) {
    if (!isSameProcess(record)) forget(session, record.name);
  }
  const recorded = Object.values(session.state.processes).map(({ pid }) => pid);
  // A backend that PostgreSQL has just forked still carries its mark.
  const known = new Set(withDescendants(recorded));
  for (const pid of findMarkedProcesses(session.home)) {
    const startedAt = startTimeOf(pid);
    if (known.has(pid) || startedAt === undefined) continue;
    session.report(`ending process ${pid}, which an interrupted launcher left behind`);
    await stopProcess({ pid, startedAt }, strayStop);
  }
}
