import { credentialsIn, type Credentials } from './credentials.ts';
import type { Home } from './home.ts';
import { readState, writeState, type ProcessRecord, type State } from './state.ts';

/** Shows one line of progress. */
export type Report = (line: string) => void;

/** One launcher at work on one home, under its lock. */
export type Session = {
  home: Home;
  state: State;
  credentials: Credentials;
  report: Report;
  /** Aborted when the person at the keyboard changed their mind. */
  signal: AbortSignal;
  /** What this launcher started, so that an interrupted `up` stops that and nothing else. */
  started: string[];
};

/** Opens a session. Call it under the home's lock. */
export function openSession(home: Home, working: Pick<Session, 'report' | 'signal'>): Session {
  return {
    home,
    state: readState(home),
    // Made when first needed: a home that is only looked at gets none.
    get credentials() {
      return credentialsIn(home.credentials);
    },
    ...working,
    started: [],
  };
}

/** Records a process the moment it exists. */
export function remember(session: Session, record: ProcessRecord): void {
  session.state.processes[record.name] = record;
  session.started.push(record.name);
  writeState(session.home, session.state);
}

/** Drops the record of a process that is gone. */
export function forget(session: Session, name: string): void {
  delete session.state.processes[name];
  writeState(session.home, session.state);
}
