import type { Failure, Money, PaymentDetails, TxnId } from '@triplock/payments';
import type { SettingsOf, SettingsTable } from '@triplock/runtime';
import type { ProviderJournal } from './provider-journal.ts';
import type { ListedDispute, Provider, ProviderError } from './provider.ts';

/** What a partner wants charged, and how. */
export type Charge = PaymentDetails & Required<Pick<PaymentDetails, 'paymentMethod'>>;

/** Why a charge can never be made, and which field of the request is to be changed. */
export type Unpayable = {
  readonly field: 'amount' | 'currency' | 'payment_method' | 'capture_method' | 'return_url';
  readonly failure: Failure;
};

/** How a provider is opened, besides its own settings. */
export type ProviderOptions = {
  /** Until a call is given up, its outcome being unknown then; milliseconds. */
  timeoutMs: number;
};

/** How gently its journal is read. */
export type ProviderJournalOptions = ProviderOptions & {
  /** Requests a second at most. */
  requestsPerSecondMax: number;
  /** Rows of a page; as many as the provider gives by default. */
  pageMax?: number;
};

/**
 * A provider as the rest of the house knows it: whoever charges at one, asks it, or starts what
 * stands for it takes it from the list (libs/providers/providers) and knows none by name.
 */
export type ProviderDeclaration<Own extends SettingsTable = SettingsTable> = {
  /** In a person's words. */
  title: string;
  /**
   * Its own settings, by which it is asked; none is required by itself, because a system may offer
   * another one.
   */
  settings: Own;
  /** Which of them whoever asks it cannot do without, and what to give to who has to act there. */
  needs: readonly (keyof Own & string)[];
  advice: Readonly<Partial<Record<keyof Own & string, string>>>;
  /** Those by which it is known who asks, so that people who act there may have their own. */
  keys: readonly (keyof Own & string)[];
  /**
   * Whether a payment method is one of its own, by its form alone: the form is what chooses the
   * provider, so no two take the same, and none ever takes what was another's. A row that a restore
   * lost is posted anew by it, and whoever has charged it has to be asked.
   */
  takes(paymentMethod: string): boolean;
  /**
   * Why it can never make a charge, known without asking it. Nothing when it may. Amounts are minor
   * units of ISO 4217; the provider's own unit stays in its folder.
   */
  whyUnpayable(charge: Charge): Unpayable | undefined;
  /**
   * The same of what was charged before: why it can never capture or give back so much of it, also
   * in a currency in which it charges nothing new.
   */
  whyImmovable(money: Money): Failure | undefined;
  /** It connects when it is first asked. */
  open(settings: SettingsOf<Own>, options: ProviderOptions): Promise<Provider>;
  openJournal(settings: SettingsOf<Own>, options: ProviderJournalOptions): Promise<ProviderJournal>;
  /**
   * What may come to another end after it had ended, which no list by time shows: the audit asks
   * about it again and again.
   */
  mayBeUndone: readonly ('charge' | 'refund')[];
  /** What to do about a journal that could not be read, in the imperative. */
  nextStep(error: ProviderError): string;
  /** Its webhooks; absent where it reports nothing and is only asked. */
  reports?: ProviderReports<Own>;
  /** What stands for it on a developer's machine. */
  simulator: ProviderSimulator;
  /**
   * Where an environment says that it is, rather than at its simulator.
   *
   * @throws SettingsError for an account that moves real money.
   */
  givenIn(environment: NodeJS.ProcessEnv): string | undefined;
  /** Its settings where it, or its simulator, answers at that URL. */
  settingsAt(url: string, environment: NodeJS.ProcessEnv): Readonly<Record<string, string>>;
};

/** How a provider reports what it decided later: by `POST /NAME/webhooks` at any worker. */
export type ProviderReports<Own extends SettingsTable = SettingsTable> = {
  /** Settings of whoever receives them. */
  settings: SettingsTable;
  /** The one of them that says what reports are signed with. */
  secrets: string;
  /** The header that a report is signed in, in lower case. */
  signature: string;
  /** Makes a secret of a random text, for a simulator to sign with. */
  secretOf(random: string): string;
  /** What is said to who sends something that is not genuine. */
  forged: string;
  /**
   * Verifies a report over its raw bytes, and that it was signed just now. Several secrets are for
   * the time in which one follows the other. Its content is only a hint to look: the state of an
   * intent is read from the provider, so order and copies do not matter.
   */
  read(
    received: { body: Buffer; signature: string | undefined },
    by: { secrets: readonly string[]; settings: SettingsOf<Own> },
  ): ReadReport;
};

/** What of a report is acted on: which intent has something new, or a refund of it. */
export type ProviderReport = {
  id: string;
  type: string;
  intentId: string;
  /** A refund of ours that gave nothing back in the end, also where it had succeeded before. */
  failedRefund?: { refundId: string; txnId: TxnId };
  /** Whose money an intent of ours has taken, or holds, as it says. */
  paid?: { txnId: TxnId };
  /** The customer wants the money back from the bank. */
  dispute?: Omit<ListedDispute, 'intentId'>;
};

/** What reading a report gives. */
export type ReadReport =
  | { outcome: 'event'; event: ProviderReport }
  /** Genuine, and about nothing that is waited for. */
  | { outcome: 'ignored'; type: string }
  /** Genuine, and of another account, or of live mode where this is a test, or the reverse. */
  | { outcome: 'foreign'; type: string }
  /** Not signed with a secret of ours, of another time, altered, or no report at all. */
  | { outcome: 'forged'; detail: string };

/**
 * The program that stands for a provider on a developer's machine. The launcher starts it by this,
 * and docker-compose.yml is made from it by `npm run generate`. It speaks the provider's own
 * interface, answers `GET /readyz`, keeps what it was told in the file `PREFIX_JOURNAL`, and goes
 * wrong on demand under `/_simulator`, behind `CONTROL_TOKEN`. It listens at `PREFIX_HOST` and
 * `PREFIX_PORT`; one that reports does so to `PREFIX_WEBHOOK_URL`, signed with
 * `PREFIX_WEBHOOK_SECRET`.
 */
export type ProviderSimulator = {
  /** Of its process and its container. */
  name: string;
  /** Its workspace, from the clone's root; its main.ts runs. */
  workspace: string;
  /** How the names of its settings begin. */
  prefix: string;
  /** On a developer's machine, where a load may last; it keeps in memory all that it was told. */
  memoryMiB: number;
  /** In a container. */
  containerMiB: number;
  /** Where it listens: usually, by which variable elsewhere, and in a container. */
  port: { usual: number; variable: string; inside: number };
};
