/** `production` refuses everything that exists to be broken on purpose, or that others can read. */
export type Mode = 'production' | 'demo' | 'test';

/**
 * What a mode refuses: a setting by its name and value; gives the reason and what to do instead.
 */
type Refusal = (setting: {
  name: string;
  value: unknown;
  /** All of them, for what one setting needs of another. */
  values: Readonly<Record<string, unknown>>;
  isAllowed(exemption: Exemption): boolean;
}) => string | undefined;

/**
 * Settings that let production go without TLS and logins where the network itself keeps others out.
 */
export type Exemption = `ALLOW_INSECURE_${'DATABASE' | 'REDIS' | 'KAFKA' | 'ADMIN'}`;

/**
 * Every one of these is asked of every setting of every service and command, by what the setting is
 * called or looks like, so that a setting that is added later is asked as well.
 */
const refusedInProduction: readonly Refusal[] = [
  ({ value }) =>
    isText(value, /^[rs]k_test_/i)
      ? 'it is a test key, which charges nobody and says that it did: give the live key (sk_live_… or rk_live_…)'
      : undefined,
  ({ name, value }) =>
    name.endsWith('_EMULATOR_HOST') && value !== undefined
      ? 'an emulator keeps nothing: unset it, and the service itself is used'
      : undefined,
  ({ name, value }) =>
    name === 'NODE_TLS_REJECT_UNAUTHORIZED' && value === '0'
      ? 'nobody would have to prove who they are: unset it, and name your own authority by NODE_EXTRA_CA_CERTS'
      : undefined,
  ({ value, isAllowed }) =>
    isText(value, /^redis:/i) && !isAllowed('ALLOW_INSECURE_REDIS')
      ? 'it has no TLS: give rediss://, or ALLOW_INSECURE_REDIS=true where the network keeps others out'
      : undefined,
  ({ value, isAllowed }) =>
    isText(value, /^rediss:/i) &&
    new URL(value).password === '' &&
    !isAllowed('ALLOW_INSECURE_REDIS')
      ? 'it logs in as nobody, so whoever reaches it changes the claims: give rediss://USER:PASSWORD@…, or ALLOW_INSECURE_REDIS=true where the network keeps others out'
      : undefined,
  ({ name, value, values, isAllowed }) =>
    name.endsWith('KAFKA_BROKERS') &&
    value !== undefined &&
    values['KAFKA_TLS'] !== 'on' &&
    !isAllowed('ALLOW_INSECURE_KAFKA')
      ? 'Kafka is spoken to without TLS: give KAFKA_TLS=on, or ALLOW_INSECURE_KAFKA=true where the network keeps others out'
      : undefined,
  ({ name, value, values, isAllowed }) =>
    name.endsWith('KAFKA_BROKERS') &&
    value !== undefined &&
    values['KAFKA_USERNAME'] === undefined &&
    !isAllowed('ALLOW_INSECURE_KAFKA')
      ? 'nobody logs in to Kafka, so whoever reaches it has payments made: give KAFKA_USERNAME and KAFKA_PASSWORD, or ALLOW_INSECURE_KAFKA=true where the network keeps others out'
      : undefined,
  ({ name, value, isAllowed }) =>
    name === 'ADMIN_HOST' && isEveryAddress(value) && !isAllowed('ALLOW_INSECURE_ADMIN')
      ? 'the admin port has no login, and so it is on every network of this machine: give one address, or ALLOW_INSECURE_ADMIN=true where the network keeps others out'
      : undefined,
  ({ value, isAllowed }) =>
    isText(value, /^postgres(ql)?:/i) && !hasTls(value) && !isAllowed('ALLOW_INSECURE_DATABASE')
      ? 'it has no TLS that proves whose server it is: add ?sslmode=verify-full, or give ALLOW_INSECURE_DATABASE=true where the network keeps others out'
      : undefined,
];

const refusedElsewhere: readonly Refusal[] = [
  ({ value }) =>
    isText(value, /^[rs]k_live_/i)
      ? 'it is a live key, which charges real cards: give a test key (sk_test_… or rk_test_…)'
      : undefined,
];

/** What is refused of one setting alone, by its own table. */
type OwnRefusals = Readonly<
  Record<
    string,
    {
      refusedInProduction?: (
        value: unknown,
        isAllowed: (exemption: Exemption) => boolean,
      ) => string | undefined;
    }
  >
>;

/** Settings as read; and the environment, from which emulators' clients read by themselves. */
export type GivenSettings = {
  values: Readonly<Record<string, unknown>>;
  environment: NodeJS.ProcessEnv;
};

/**
 * What the mode refuses of these settings: all of it at once, each by its name, with what to do and
 * never with its value.
 */
export function refusedBy(
  mode: Mode,
  table: OwnRefusals,
  { values, environment }: GivenSettings,
): string[] {
  const isProduction = mode === 'production';
  const refusals = isProduction ? refusedInProduction : refusedElsewhere;
  const isAllowed = (exemption: Exemption) => values[exemption] === 'true';
  const readByClients = Object.entries(environment).filter(
    ([name, value]) => readUntabled.test(name) && (value?.trim() ?? '') !== '',
  );
  const asked = { ...Object.fromEntries(readByClients), ...values };
  return Object.entries(asked).flatMap(([name, value]) => {
    const why =
      refusals.map((refusal) => refusal({ name, value, values, isAllowed })).find(Boolean) ??
      (isProduction ? table[name]?.refusedInProduction?.(value, isAllowed) : undefined);
    return why === undefined ? [] : [`${name} is refused, TRIPLOCK_MODE is ${mode}: ${why}`];
  });
}

const readUntabled = /_EMULATOR_HOST$|^NODE_TLS_REJECT_UNAUTHORIZED$/;

function isText(value: unknown, form: RegExp): value is string {
  return typeof value === 'string' && form.test(value);
}

/** Whether a server that listens there does so on all addresses, however that is written. */
function isEveryAddress(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  const host = value.includes(':') ? `[${value.replaceAll(/[[\]]/g, '')}]` : value;
  if (!URL.canParse(`http://${host}`)) return false;
  return /^(0\.0\.0\.0|\[::(ffff:0:0)?\])$/.test(new URL(`http://${host}`).hostname);
}

/**
 * Whether the driver asks for TLS and compares the server's name with its certificate: not with
 * `require`, `prefer` or `no-verify`, which some versions take for no more than encrypted.
 */
function hasTls(url: string): boolean {
  const modes = new URL(url).searchParams.getAll('sslmode');
  // The driver goes by the last one.
  return modes.at(-1) === 'verify-full';
}
