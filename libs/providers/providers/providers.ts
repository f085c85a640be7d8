import type { Failure, Money, PaymentDetails, ProviderName } from '@triplock/payments';
import type {
  Charge,
  Provider,
  ProviderDeclaration,
  ProviderError,
  ProviderJournal,
  ProviderJournalOptions,
  ProviderOptions,
  ReadReport,
  Unpayable,
} from '@triplock/provider';
import { giroProvider } from '@triplock/provider-giro';
import { stripeProvider } from '@triplock/provider-stripe';
import {
  isSet,
  missingFor,
  oneOf,
  text,
  together,
  withDefault,
  type Setting,
  type SettingsOf,
} from '@triplock/runtime';

/** What PROVIDERS can name: a provider goes with its folder and its line. */
const listed = {
  stripe: stripeProvider,
  giro: giroProvider,
} as const;

type Listed = typeof listed;
/** A provider's name in PROVIDERS, in the ledger and in its accounts. */
export type ListedProvider = keyof Listed;
/** What its process and its container are called that stands for one. */
export type SimulatorName = Listed[ListedProvider]['simulator']['name'];

/** The names of all providers, the usual one first. */
export const providerNames = Object.keys(listed) as [ListedProvider, ...ListedProvider[]];
const [usual] = providerNames;
const ownSettings = together(Object.values(listed).map(({ settings }) => settings));
const settingsOfReports = together(
  Object.values(listed).flatMap((each) => ('reports' in each ? each.reports.settings : [])),
);

const several: Setting<readonly ListedProvider[]> = {
  expected: `one or more of ${providerNames.join(', ')}, separated by commas`,
  parse: (value) => {
    const named = value.split(',').map((each) => oneOf(providerNames).parse(each.trim()));
    return named.every((each) => each !== undefined) ? named : undefined;
  },
};

/** The setting of every service that has to do with providers, for its settings table. */
export const offeredSettings = {
  /**
   * Whom this system charges at; a payment method of another one is refused at the door. A
   * provider's own settings are needed where it is named, and one is named everywhere or nowhere.
   */
  PROVIDERS: withDefault(several, [usual] as const),
};

/** By which providers are asked, for the settings table of whoever asks all that there are. */
export const accountSettings = ownSettings;

/** The same, for whoever charges at those that are offered. */
export const providerSettings = { ...offeredSettings, ...accountSettings };

/** By which their reports are verified, for the settings table of whoever receives them. */
export const reportSettings = settingsOfReports;

/** The settings as read. */
export type ReportSettings = SettingsOf<typeof reportSettings>;
export type AccountSettings = SettingsOf<typeof accountSettings>;
export type ProviderSettings = SettingsOf<typeof providerSettings>;
/** A provider's own setting. */
export type OwnProviderSetting = keyof typeof ownSettings;

/** What to give for a setting that some provider needs. */
export const providerAdvice = Object.assign(
  {},
  ...Object.values(listed).map(({ advice }) => advice),
) as Readonly<Record<string, string>>;

/** What providers need to be asked, a line each, for the help of a command. */
export const providerWords = providerNames
  .flatMap((name) => {
    const { title, settings, needs, advice } = providerNamed(name);
    const known: Readonly<Partial<Record<string, string>>> = advice;
    return Object.keys(settings).map((setting) => {
      const isNeeded = needs.includes(setting);
      return `  ${title}: ${setting}${isNeeded ? `, ${known[setting] ?? 'needed'}` : ''}`;
    });
  })
  .join('\n');

/** A setting by which it is known who asks. */
export type KeySetting = Listed[ListedProvider]['keys'][number];
const keys = Object.values(listed).flatMap((each): readonly KeySetting[] => each.keys);

/** What the setting is called that people who act at providers have of their own. */
function operatorKey<Name extends string>(setting: Name): `OPERATOR_${Name}` {
  return `OPERATOR_${setting}`;
}

/** What those people have to be given where a setting is missing. */
export function operatorSetting(setting: string): string {
  return keys.some((key) => key === setting) ? operatorKey(setting) : setting;
}

/** Their settings, for a settings table. */
export const operatorKeySettings = Object.fromEntries(
  keys.map((key) => [operatorKey(key), withDefault(text, undefined)]),
) as Readonly<Record<`OPERATOR_${KeySetting}`, Setting<string | undefined>>>;

/** The same settings by the names that they have as those people's. */
export function keysOfOperators(
  settings: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(keys.map((key) => [operatorKey(key), settings[key] ?? '']));
}

/** The same accounts as those people ask them. */
export function accountsOfOperators(
  settings: AccountSettings & SettingsOf<typeof operatorKeySettings>,
): AccountSettings {
  const own = keys.map((key) => [key, settings[operatorKey(key)]]);
  return { ...settings, ...(Object.fromEntries(own) as Partial<AccountSettings>) };
}

/** A provider of the list, as any of them is. */
export function providerNamed(name: ListedProvider): ProviderDeclaration {
  return listed[name];
}

/** The one of the list that a row, an event or an address names; nothing where it is not there. */
export function findProvider(name: string): ListedProvider | undefined {
  return providerNames.find((each) => each === name);
}

/** What is missing of an environment for whoever charges at the providers that it names. */
export function missingForProviders(environment: NodeJS.ProcessEnv): string[] {
  // Another name is malformed, which the table says.
  const named = several.parse(environment['PROVIDERS']?.trim() || usual) ?? [];
  return named.flatMap((name) =>
    missingFor(`PROVIDERS=${name}`, { environment, needs: providerNamed(name).needs }),
  );
}

/**
 * What is missing of an environment for whoever receives reports on a port: a port without a
 * secret, and a secret without a port, are both a mistake.
 */
export function missingForReports(environment: NodeJS.ProcessEnv, portSetting: string): string[] {
  const secrets = providerNames.flatMap((name) => providerNamed(name).reports?.secrets ?? []);
  const given = secrets.filter((name) => isSet(environment, name));
  const hasPort = isSet(environment, portSetting);
  if (hasPort === given.length > 0) return [];
  if (hasPort) return [`${secrets.join(' or ')} is missing: ${portSetting} needs it`];
  return [`${portSetting} is missing: ${given.join(' and ')} needs it`];
}

/** What a provider lacks to be asked, for a person to set; nothing where it has all. */
export function lacking(name: ListedProvider, settings: AccountSettings): string[] {
  const given: Readonly<Record<string, unknown>> = settings;
  return providerNamed(name).needs.filter((setting) => given[setting] === undefined);
}

/**
 * Who charges a payment: whoever takes its method, by the form of that alone, so a retry, another
 * process and another version choose the same. Nothing for a book transfer, which nobody is asked
 * about. The door has refused what nobody takes; what came past it goes to the usual provider,
 * which refuses it as unknown.
 */
export function providerOf({ paymentMethod }: PaymentDetails): ListedProvider | undefined {
  if (paymentMethod === undefined) return undefined;
  return takerOf(paymentMethod) ?? usual;
}

function takerOf(paymentMethod: string): ListedProvider | undefined {
  return providerNames.find((name) => providerNamed(name).takes(paymentMethod));
}

/**
 * Why a payment can never be charged here, known without asking anybody: nobody who is offered
 * takes its method, or whoever does can never make such a charge. Nothing when it may, and for a
 * book transfer.
 */
export function whyUnpayable(
  details: PaymentDetails,
  offered: readonly ListedProvider[],
): Unpayable | undefined {
  const { paymentMethod } = details;
  if (paymentMethod === undefined) return undefined;
  const name = takerOf(paymentMethod);
  if (name === undefined || !offered.includes(name)) {
    const message = 'No provider here takes this payment method: choose another one.';
    return { field: 'payment_method', failure: { code: 'payment_method_not_supported', message } };
  }
  return providerNamed(name).whyUnpayable(details as Charge);
}

/** Why a provider can never capture or give back so much of what it charged; nothing if it may. */
export function whyImmovable(money: Money, provider: string): Failure | undefined {
  const name = findProvider(provider);
  return name && providerNamed(name).whyImmovable(money);
}

/** Opens a provider by the settings, which lack nothing; it connects when it is first asked. */
export function openProvider(
  name: ListedProvider,
  settings: AccountSettings,
  options: ProviderOptions,
): Promise<Provider> {
  return providerNamed(name).open(settings, options);
}

/** The journal of one provider, to read. */
export type OpenedJournal = {
  provider: ProviderName;
  /** The provider, in a person's words. */
  title: string;
  /** Absent where the settings lack something. */
  journal?: ProviderJournal;
  /** What they lack. */
  lacks: readonly string[];
  /** What may come to another end after it had ended. */
  mayBeUndone: ProviderDeclaration['mayBeUndone'];
  /** What to do about a journal that could not be read. */
  nextStep(error: ProviderError): string;
};

/** The journals of all providers, as far as the settings allow to read them. */
export function openProviderJournals(
  settings: AccountSettings,
  options: ProviderJournalOptions,
): Promise<OpenedJournal[]> {
  const opening = providerNames.map(async (provider): Promise<OpenedJournal> => {
    const { title, openJournal, mayBeUndone, nextStep } = providerNamed(provider);
    const lacks = lacking(provider, settings);
    const opened = { provider, title, lacks, mayBeUndone, nextStep };
    if (lacks.length > 0) return opened;
    return { ...opened, journal: await openJournal(settings, options) };
  });
  return Promise.all(opening);
}

/** Where the reports of one provider come in, and how they are verified. */
export type ReportDoor = {
  name: ListedProvider;
  /** The header that they are signed in. */
  signature: string;
  /** What is said to who sends something that is not genuine. */
  forged: string;
  read(received: { body: Buffer; signature: string | undefined }): ReadReport;
};

/** The path at which a provider reports. */
export function pathOfReports(name: ListedProvider): string {
  return `/${name}/webhooks`;
}

/** The door at a path; nothing where no provider reports. */
export function doorAt(
  path: string | undefined,
  settings: AccountSettings & ReportSettings,
): ReportDoor | undefined {
  const name = providerNames.find((each) => pathOfReports(each) === path);
  const reports = name && providerNamed(name).reports;
  if (name === undefined || reports === undefined) return undefined;
  const given: Readonly<Record<string, unknown>> = settings;
  const secrets = given[reports.secrets] as readonly string[];
  const { signature, forged } = reports;
  return {
    name,
    signature,
    forged,
    read: (received) => reports.read(received, { secrets, settings }),
  };
}
