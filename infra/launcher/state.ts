import type { ClaimStore } from './claim-store.ts';
import type { Home } from './home.ts';
import { readJson, writeJson } from './json-file.ts';
import type { LedgerStore } from './ledger-store.ts';

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
};

/** What a home remembers between two commands. */
export type State = {
  version: 1;
  /** Every port ever chosen, by process and use, so that a restart comes back to it. */
  ports: Record<string, number>;
  processes: Record<string, ProcessRecord>;
  /** How many of each service the last `up` asked for; 0 when there are none. */
  replicas: number;
  /** Where the last `up` with services kept claims; absent before the first. */
  claims?: ClaimStore;
  /** What runs it; absent before the first `up` with services. It does not change afterwards. */
  parts?: 'native' | 'docker';
  /** Ports of this machine that containers are published on, by the variable that names them. */
  published?: Readonly<Record<string, string>>;
  /** Where the ledger is; absent before the first `up` with services. */
  ledger?: LedgerStore;
};

/** The home's state; an empty one for a new home. */
export function readState(home: Home): State {
  const stored = readJson(home.state) as State | undefined;
  return stored ?? { version: 1, ports: {}, processes: {}, replicas: 0 };
}

/** Stores the state, all or nothing. */
export function writeState(home: Home, state: State): void {
  writeJson(home.state, state);
}
