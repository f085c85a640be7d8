import { CommandError } from '@triplock/command';
import {
  pathOfReports,
  providerNamed,
  providerNames,
  type ListedProvider,
} from '@triplock/providers';
import { SettingsError } from '@triplock/runtime';

/** Where payments are charged at one provider, and as whom. */
export type ProviderAccount = {
  provider: ListedProvider;
  origin: 'given' | 'simulated';
  url: string;
  /** The provider's own, by which it is asked there. */
  settings: Readonly<Record<string, string>>;
  /**
   * Where it reports what it decided later, and what it signs that with; absent: it reports
   * nothing.
   */
  webhooks?: { url: string; secrets: string };
};

/** The names of simulators among the processes, by their provider. */
export function simulatorOf(provider: ListedProvider): string {
  return providerNamed(provider).simulator.name;
}

/**
 * Of each provider itself where the environment gives an account of it, else its simulator. It
 * reports what it decided later where the environment also gives the secret that it signs that
 * with.
 *
 * @param ports those of the worker that webhooks go to and of the simulators, where they run here.
 * @throws CommandError for an account that would move real money.
 */
export function chooseAccounts(ports: {
  webhooks: number | undefined;
  simulators: Readonly<Partial<Record<ListedProvider, number>>>;
}): ProviderAccount[] {
  return providerNames.map((provider) => {
    const given = givenAccount(provider);
    const account =
      given ?? accountAt(provider, `http://127.0.0.1:${ports.simulators[provider] ?? 0}`);
    const secrets =
      given === undefined
        ? simulatorSecret(provider, 'triplock_simulator')
        : givenSecrets(provider);
    if (!secrets || !ports.webhooks) return account;
    const url = `http://127.0.0.1:${ports.webhooks}${pathOfReports(provider)}`;
    return { ...account, webhooks: { url, secrets } };
  });
}

/**
 * The provider itself, where the environment gives an account of it.
 *
 * @throws CommandError for an account that would move real money.
 */
export function givenAccount(provider: ListedProvider): ProviderAccount | undefined {
  try {
    const url = providerNamed(provider).givenIn(process.env);
    return url === undefined ? undefined : { ...accountAt(provider, url), origin: 'given' };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    throw new CommandError(error.problems.join('\n'), { cause: error });
  }
}

/** What the environment says that a given provider signs its reports with. */
export function givenSecrets(provider: ListedProvider): string | undefined {
  const { reports } = providerNamed(provider);
  return reports && (process.env[reports.secrets]?.trim() || undefined);
}

/** What a simulator signs its reports with, made of a text; nothing where it reports nothing. */
export function simulatorSecret(provider: ListedProvider, random: string): string | undefined {
  return providerNamed(provider).reports?.secretOf(random);
}

/** As whom a provider, or its simulator, is asked at a URL where a system has it. */
export function accountAt(provider: ListedProvider, url: string): ProviderAccount {
  const settings = providerNamed(provider).settingsAt(url, process.env);
  return { provider, origin: 'simulated', url, settings };
}

/** The settings of all accounts. */
export function settingsOfAccounts(
  accounts: readonly Pick<ProviderAccount, 'settings'>[],
): Record<string, string> {
  return Object.assign({}, ...accounts.map(({ settings }) => settings)) as Record<string, string>;
}

/** What the launcher itself goes by, where it is called. */
export const settingsGiven = providerNames.flatMap((name) => {
  const { keys, reports } = providerNamed(name);
  return [...keys, ...(reports === undefined ? [] : [reports.secrets])];
});
