import {
  isSet,
  oneOf,
  port,
  readSettings,
  refusedInProduction,
  serviceSettings,
  text,
  url,
  withDefault,
  type Setting,
} from '@triplock/runtime';
import { missingForKafka } from '@triplock/transport';
import { settings as system } from '@triplock/inspect';
import { operatorKeySettings } from '@triplock/providers';

/** Where processes answer operators, as `name=http://host:port`, separated by commas. */
const processes: Setting<readonly { name: string; url: string }[]> = {
  expected: 'names and URLs such as auditor=http://auditor:9100, separated by commas',
  parse: (value) => {
    const parsed = value
      .split(',')
      .map((each) => /^([a-z0-9-]+)=(https?:\/\/[^\s,]+)$/.exec(each.trim()));
    if (!parsed.every((each) => each !== null)) return undefined;
    return parsed.map(([, name, origin]) => ({ name: name!, url: origin! }));
  },
};

const refusedWhereSet = (value: unknown) =>
  value === undefined ? undefined : 'it exists to break things: unset it';

/** The console's settings: where the system is, and who may come to it from where. */
export const settings = {
  ...system,
  ...serviceSettings,
  /** As triplock_console, which writes nothing but the console's own tables. */
  DATABASE_URL: url(['postgres:', 'postgresql:']),
  CONSOLE_HOST: withDefault(text, '127.0.0.1'),
  CONSOLE_PORT: port,
  /** `none`: whoever reaches it is an administrator, called demo. For a machine of one's own. */
  CONSOLE_LOGIN: refusedInProduction(
    withDefault(oneOf(['required', 'none']), 'required' as const),
    (login) => (login === 'none' ? 'whoever reaches it could do everything: unset it' : undefined),
  ),
  /** Where browsers find it, such as https://console.example; any other host is refused. */
  CONSOLE_ORIGIN: refusedInProduction(withDefault(url(['http:', 'https:']), undefined), (origin) =>
    origin?.startsWith('http:')
      ? 'its cookies would go over the wire as they are: give an https URL'
      : undefined,
  ),
  /** Where a container's port is published: the loopback address opens it without logging in. */
  CONSOLE_PUBLISHED_ON: withDefault(text, undefined),
  /** The launcher's agent, which breaks a demo to show how it holds, and its token. */
  CONSOLE_AGENT_URL: refusedInProduction(withDefault(url(['http:']), undefined), refusedWhereSet),
  CONSOLE_AGENT_TOKEN: refusedInProduction(withDefault(text, undefined), refusedWhereSet),
  /** Keys that may refund charges and cancel intents; where there is none nothing is given back. */
  ...operatorKeySettings,
  /** Every process of the system that tells how it is; one that is not named here is not shown. */
  PROCESS_URLS: withDefault(processes, []),
};

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;

const loopback = /^(127\.\d+\.\d+\.\d+|localhost|::1)$/;

/** @throws SettingsError with every problem at once, also where it stood open to a network. */
export function readConfig() {
  const missing = [
    ...missingForKafka(process.env),
    ...missingForDoor(process.env),
    ...missingForAgent(process.env),
  ];
  return readSettings(process.env, settings, missing);
}

function missingForAgent(given: NodeJS.ProcessEnv): string[] {
  if (!given['CONSOLE_AGENT_URL'] || isSet(given, 'CONSOLE_AGENT_TOKEN')) return [];
  return ['CONSOLE_AGENT_TOKEN is missing: the agent of CONSOLE_AGENT_URL wants to be shown it'];
}

/** What is wrong with who may come in, which is said by several settings together. */
function missingForDoor(given: NodeJS.ProcessEnv): string[] {
  const { CONSOLE_LOGIN: login, CONSOLE_HOST: host = '127.0.0.1', CONSOLE_PUBLISHED_ON } = given;
  if (login !== 'none') {
    if (given['CONSOLE_ORIGIN']) return [];
    return ['CONSOLE_ORIGIN is missing: give the URL that browsers find it by'];
  }
  if (loopback.test(host) || loopback.test(CONSOLE_PUBLISHED_ON ?? '')) return [];
  return ['CONSOLE_LOGIN is none, and CONSOLE_HOST is no loopback address: unset one of them'];
}
