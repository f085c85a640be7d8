import {
  partnerLimits,
  redisStore,
  type Claims,
  type ClaimsInspector,
  type ClaimStore,
  type ClaimWalk,
} from '@triplock/claims';
import { dynamoStore } from '@triplock/claims-dynamodb';
import { hybridStore } from '@triplock/claims-hybrid';
import { postgresStore } from '@triplock/claims-postgres';
import {
  integer,
  missingFor,
  oneOf,
  readSettings,
  refusedInProduction,
  text,
  together,
  withDefault,
  type Logger,
  type PartDeclaration,
  type Service,
  type SettingsOf,
} from '@triplock/runtime';
import { noStore } from './no-store.ts';

/** What CLAIMS can name: a store goes with its folder and its line. */
export const claimStores = {
  redis: redisStore,
  postgres: postgresStore,
  hybrid: hybridStore,
  dynamodb: dynamoStore,
  none: noStore,
} as const;

type Listed = typeof claimStores;
export type ClaimStoreName = keyof Listed;
/** A store that keeps something. */
export type KeepingStore = Exclude<ClaimStoreName, 'none'>;
/** A server that some store consists of. */
export type ClaimPart = Listed[ClaimStoreName]['parts'][number];

const names = Object.keys(claimStores) as [ClaimStoreName, ...ClaimStoreName[]];
const stores: readonly ClaimStore[] = Object.values(claimStores);
const ownSettings = together(Object.values(claimStores).map(({ settings }) => settings));

/** The servers that stores bring along. */
export const claimParts = stores.flatMap(
  ({ brings }) => brings ?? [],
) as readonly PartDeclaration<ClaimPart>[];

/** The names of all stores that keep something, the usual one first. */
export const keepingStores = names.filter((name) => name !== 'none') as [
  KeepingStore,
  ...KeepingStore[],
];

/** Where claims are kept, for the settings table of whoever only looks at them. */
export const claimStoreSettings = {
  CLAIMS: withDefault(oneOf(keepingStores), 'redis'),
  CLAIM_NAMESPACE: withDefault(text, 'triplock'),
  ...ownSettings,
};

/** Settings of every service that takes or reads claims, for its settings table. */
export const claimSettings = {
  ...claimStoreSettings,
  /** `none` takes guard 1 away and is refused in production. */
  CLAIMS: refusedInProduction(withDefault(oneOf(names), 'redis'), (store) =>
    store === 'none' ? 'nothing would stop a duplicate at the door: name a store' : undefined,
  ),
  /**
   * How many of its keys one partner may have in the store at once, of 24 hours and at most 400
   * bytes each, and, but in `dynamodb`, how many bytes of what it sent, for a minute or while the
   * ledger is behind. Then it gets 429, so that the store is full for nobody else.
   */
  CLAIMS_PER_PARTNER: withDefault(
    integer({ min: 64, max: 1_000_000_000 }),
    partnerLimits.claimsPerPartner,
  ),
  SHOWN_BYTES_PER_PARTNER: withDefault(
    integer({ min: 8 * 1024 * 1024, max: 1_000_000_000_000 }),
    partnerLimits.shownBytesPerPartner,
  ),
};

/** Settings as read: which store, and where it is. */
export type ClaimStoreSettings = SettingsOf<typeof claimStoreSettings>;
/** The same of a service. */
export type ClaimSettings = SettingsOf<typeof claimSettings> & { INSTANCE_NAME: string };

/** What to give for a setting that some store needs, and which stores those are. */
export const claimStoreAdvice = Object.fromEntries(
  stores
    .flatMap(({ advice }) => Object.entries<string>(advice))
    .map(([setting, what]) => [setting, `${what}${whoNeeds(setting)}`]),
) as Readonly<Record<keyof typeof ownSettings, string>>;

function whoNeeds(setting: string): string {
  const needing = names.filter((name) => storeNamed(name).needs.claims.includes(setting));
  if (needing.length === 0) return '';
  return `: ${needing.map((name) => `CLAIMS=${name}`).join(' and ')} ${needing.length > 1 ? 'have' : 'has'} it`;
}

/** What is missing of an environment for the claims that it names, as a gateway's or a reader's. */
export function missingForClaims(
  environment: NodeJS.ProcessEnv,
  use: keyof ClaimStore['needs'],
): string[] {
  const named = environment['CLAIMS']?.trim() || 'redis';
  // Another name is malformed, which the table says.
  const name = names.find((each) => each === named);
  if (name === undefined) return [];
  return missingFor(`CLAIMS=${name}`, { environment, needs: neededBy(name, use) });
}

/** The settings that a store cannot do without. */
export function neededBy(
  name: ClaimStoreName,
  use: keyof ClaimStore['needs'],
): readonly (keyof typeof ownSettings)[] {
  return claimStores[name].needs[use];
}

/**
 * Opens the claim store that the settings name, and closes it with the service.
 *
 * @throws the store's own error when it is there and may lose claims unnoticed.
 */
export async function openClaims(
  settings: ClaimSettings,
  { logger, onClose }: Pick<Service, 'logger' | 'onClose'>,
): Promise<Claims> {
  const claims = await storeNamed(settings.CLAIMS).open(settings, {
    namespace: settings.CLAIM_NAMESPACE,
    applicationName: settings.INSTANCE_NAME,
    logger,
    claimsPerPartner: settings.CLAIMS_PER_PARTNER,
    shownBytesPerPartner: settings.SHOWN_BYTES_PER_PARTNER,
  });
  onClose('claims', () => claims.close());
  return claims;
}

/**
 * Opens the same store to read: whoever has this can take and change no claim.
 *
 * @throws the store's own error when it is there and may lose claims unnoticed.
 */
export async function openClaimWalk(settings: ClaimSettings, logger: Logger): Promise<ClaimWalk> {
  const { CLAIM_NAMESPACE: namespace, INSTANCE_NAME: applicationName } = settings;
  return storeNamed(settings.CLAIMS).walk(settings, { namespace, applicationName, logger });
}

/** Reaches the same store past the gateways; connects when it is first asked. */
export function inspectClaims(settings: ClaimStoreSettings): Promise<ClaimsInspector> {
  return storeNamed(settings.CLAIMS).inspect(settings, { namespace: settings.CLAIM_NAMESPACE });
}

/** Makes what has to be there before the first claim and no migration makes; idempotent. */
export async function provisionClaimStore(settings: ClaimStoreSettings): Promise<void> {
  await storeNamed(settings.CLAIMS).provision?.(settings);
}

/** Where claims are, read from an environment. @throws SettingsError. */
export function readClaimStore(environment: NodeJS.ProcessEnv): ClaimStoreSettings {
  return readSettings(environment, claimStoreSettings, missingForClaims(environment, 'walk'));
}

/** A store of the list, as any of them is. */
export function storeNamed(name: ClaimStoreName): ClaimStore {
  return claimStores[name];
}
