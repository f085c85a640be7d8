import type { RunMode, Stores } from './choices.ts';
import { type Credentials, credentialsIn, type Home, isHome, readJson, writeJson } from './home.ts';

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
  /** The ports that other homes leave alone. */
  reservations: Reservations;
};

/**
 * Ports that this user's homes keep from one another. A port is chosen seconds before it is bound,
 * and one whose process was killed is bound again by the next `up`: in between another home must
 * not
 * take it, or the services of one would talk to the parts of the other.
 */
export type Reservations = {
  /** Whether the port is this home's now: nobody else has it, and nobody gets it. */
  reserve(port: number): boolean;
  /**
   * The launcher has done its work. What it reserved stays reserved for as long as a process of the
   * home lives.
   */
  release(): void;
};

type Working = Pick<Session, 'report' | 'signal'> & Partial<Pick<Session, 'reservations'>>;

/** Of a launcher that has nobody listen on a port. */
const nothingToReserve: Reservations = {
  reserve: () => true,
  release: () => undefined,
};

/** Opens a session. Call it under the home's lock. */
export function openSession(home: Home, working: Working): Session {
  return {
    home,
    state: readState(home),
    // Made when first needed: a home that is only looked at gets none.
    get credentials() {
      return credentialsIn(home.credentials);
    },
    reservations: nothingToReserve,
    ...working,
    started: [],
  };
}

/** Records a process the moment it exists. */
export function remember(session: Session, record: ProcessRecord): void {
  session.state.processes[record.name] = record;
  delete session.state.ended?.[record.name];
  session.started.push(record.name);
  writeState(session.home, session.state);
}

/** Drops the record of a process that is gone. */
export function forget(session: Session, name: string): void {
  delete session.state.processes[name];
  delete session.state.ended?.[name];
  writeState(session.home, session.state);
}

/** A process that this home started. */
export type ProcessRecord = {
  name: string;
  pid: number;
  /** When the pid began, so that a pid that was given away meanwhile is not taken for ours. */
  startedAt: string;
  /** By use, e.g. `{ http: 18080, admin: 18100 }`. */
  ports: Readonly<Record<string, number>>;
  /** A hash of how it was started: a service whose settings changed is started again. */
  settings: string;
  /** Where in its log the words of this run begin. */
  logFrom?: number;
};

/**
 * How often a process was started again that had ended by itself, since the home was brought up.
 */
export type Restarts = {
  count: number;
  /** The last of them, none of which was up for long: the pause before the next grows with it. */
  inARow: number;
  lastAt: string;
  /** Why it had ended, where its last words said so. */
  why?: string;
};

/** What a home remembers between two commands; its stores are known after the first `up`. */
export type State = Stores & {
  version: 1;
  /** Every port ever chosen, by process and use, so that a restart comes back to it. */
  ports: Record<string, number>;
  processes: Record<string, ProcessRecord>;
  /**
   * Those that ended by themselves, and which another launcher than one that starts them again has
   * found gone: somebody has yet to.
   */
  ended?: Record<string, ProcessRecord>;
  restarts?: Record<string, Restarts>;
  /** How many of each service the last `up` asked for; 0 when there are none. */
  replicas: number;
  /** Whether an agent belongs to it, until it is taken down. */
  agent?: 'up';
  /** What runs it; absent before the first `up` with services. It does not change afterwards. */
  parts?: RunMode;
  /** Ports of this machine that containers are published on, by the variable that names them. */
  published?: Readonly<Record<string, string>>;
  /** The first of those that replicas in containers are published on, outside the default home. */
  publishedFrom?: number;
};

/** The home's state; an empty one for a new home, and where another's file lies in its place. */
export function readState(home: Home): State {
  const stored = isHome(home) ? (readJson(home.state) as State | undefined) : undefined;
  return stored ?? { version: 1, ports: {}, processes: {}, replicas: 0 };
}

/** Stores the state, all or nothing. */
export function writeState(home: Home, state: State): void {
  writeJson(home.state, state);
}
