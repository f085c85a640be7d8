import type { Home } from '../home.ts';
import type { PortRequest } from '../ports.ts';
import type { Command } from '../processes/start.ts';
import type { StopOrder } from '../processes/stop.ts';
import type { Session } from '../session.ts';
import type { OptionalPartName, PartName, UsualPartName } from './part-names.ts';

/** A part that can be started here, and the words that say where it came from. */
export type Fetched = {
  picked: string;
  /** Makes what the first start needs in the part's data folder, and returns what to run. */
  command(site: Site): Promise<Command>;
  /** The same command behind a door of ours, for a server that would let in whoever comes. */
  behindDoor?(command: Command, site: Pick<Site, 'ports'>): Command;
  /** Where a part that runs on Java keeps its classes once they were archived. */
  classArchive?: ClassArchive;
};

/** A folder of the parts cache that holds the archive of one program for one Java. */
export type ClassArchive = { name: string };

/** Where a part runs. */
export type Site = {
  session: Session;
  /** The part's own data folder; it need not exist. */
  folder: string;
  ports: Readonly<Record<string, number>>;
};

/** What only the server of this home can say of itself. */
export type OwnServer = { home: Home; pid: number };

/** One shape for every part, so that the launcher treats all alike. */
export type Part = {
  name: PartName;
  title: string;
  /** The environment variable that names a server that is there already. */
  given: { variable: string; address(value: string): string };
  ports: readonly PortRequest[];
  /** Finds the program on this machine, or fetches it into the cache. */
  fetch(session: Session): Promise<Fetched>;
  /** What the services are given, from the ports. */
  address(site: { session: Pick<Session, 'credentials'>; ports: Site['ports'] }): string;
  /** Asks the server something that only a ready one answers; throws when it does not. */
  probe(address: string): Promise<void>;
  /**
   * Asks a server that answers who it is, where it knows: another home's would answer as well.
   * Throws unless it is this home's.
   */
  recognise?(address: string, own: OwnServer): Promise<void>;
  stop: StopOrder;
};

/**
 * Where the services find each part: `host:port` of brokers and emulators, several separated by
 * commas, else a URL. One that is started only when asked for may not be there.
 */
export type Addresses = Readonly<
  Record<UsualPartName, string> & Partial<Record<OptionalPartName, string>>
>;

/** An address as it may be shown. */
export function withoutPassword(address: string): string {
  return address.replace(/\/\/[^@/]*@/, '//');
}
