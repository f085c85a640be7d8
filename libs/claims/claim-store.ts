import type { PartDeclaration, SettingsOf, SettingsTable } from '@triplock/runtime';
import type { Claims, ClaimsOptions, ClaimWalk, PartnerLimits } from './claims.ts';
import type { ClaimsInspector } from './claims-inspector.ts';

/** Where the servers of one system answer, as the one who is to take, read or inspect claims. */
export type ClaimServers = {
  readonly redis: string;
  readonly postgres: string;
  /** Those that only some stores need, by their names; whatever else is known of the system. */
  readonly [part: string]: unknown;
};

/** What every store is opened by besides its own settings. */
export type StoreOptions = ClaimsOptions & { applicationName: string };

/**
 * A claim store as the rest of the house knows it: whoever opens, reads, inspects or provisions
 * claims takes one of these from the list (libs/stores/claim-stores) and knows no store by name.
 * Every service reads the settings of all of them, so what does the work is loaded when it is used.
 */
export type ClaimStore<Own extends SettingsTable = SettingsTable> = {
  /** In a person's words. */
  title: string;
  /** The servers that it consists of; the first one decides, those behind it are caches. */
  parts: readonly string[];
  /** The one of them that it brings along, where that is none of the usual ones. */
  brings?: PartDeclaration;
  /** Its own settings; none is required by itself, because another store may be named. */
  settings: Own;
  /** Which of them it cannot do without, to take claims or only to read them, and what to give. */
  needs: {
    claims: readonly (keyof Own & string)[];
    walk: readonly (keyof Own & string)[];
  };
  advice: Readonly<Record<keyof Own & string, string>>;
  /** Its settings where its servers are these; all its parts are among them. */
  settingsAt(servers: ClaimServers): Readonly<Record<string, string>>;
  /** Makes what has to be there before the first claim and no migration makes; idempotent. */
  provision?(settings: SettingsOf<Own>): Promise<void>;
  /** For gateways. @throws when it is there and may lose claims unnoticed. */
  open(settings: SettingsOf<Own>, options: StoreOptions & PartnerLimits): Promise<Claims>;
  /** To read alone. @throws as `open`. */
  walk(settings: SettingsOf<Own>, options: StoreOptions): Promise<ClaimWalk>;
  /** Past the gateways, connected when it is first asked. */
  inspect(settings: SettingsOf<Own>, options: { namespace: string }): Promise<ClaimsInspector>;
};
