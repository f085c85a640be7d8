import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  address,
  addresses,
  integer,
  isSet,
  oneOf,
  port,
  readSettings,
  SettingsError,
  text,
  url,
  withDefault,
} from './settings.ts';
import { modeSettings } from './service.ts';

const table = {
  NAME: text,
  PORT: port,
  BATCH_MAX: integer({ min: 1, max: 1_000 }),
  MODE: oneOf(['fast', 'safe']),
  STORE_URL: url(['redis:', 'rediss:']),
  BROKERS: addresses,
  EMULATOR: withDefault(address, undefined),
  LEVEL: withDefault(oneOf(['info', 'error']), 'info' as const),
};

const good = {
  NAME: 'gateway',
  PORT: '8080',
  BATCH_MAX: '50',
  MODE: 'safe',
  STORE_URL: 'redis://:secret@127.0.0.1:6379/0',
  BROKERS: '127.0.0.1:9092, broker-2:9093,[::1]:9094',
};

test('settings become values of their types, and defaults fill what is absent or blank', () => {
  assert.deepEqual(readSettings({ ...good, LEVEL: ' ' }, table), {
    ...good,
    PORT: 8080,
    BATCH_MAX: 50,
    BROKERS: ['127.0.0.1:9092', 'broker-2:9093', '[::1]:9094'],
    EMULATOR: undefined,
    LEVEL: 'info',
  });
});

test('all problems are reported at once, each by its variable', () => {
  const wrong = { PORT: '0', BATCH_MAX: 'many', MODE: 'SAFE', STORE_URL: 'http://x', BROKERS: 'x' };
  const { problems } = problemsOf({ ...wrong, EMULATOR: 'a:1,b:2', LEVEL: 'loud' });
  assert.deepEqual(
    problems.map((problem) => problem.split(':')[0]),
    [
      'NAME is missing',
      'PORT is malformed',
      'BATCH_MAX is malformed',
      'MODE is malformed',
      'STORE_URL is malformed',
      'BROKERS is malformed',
      'EMULATOR is malformed',
      'LEVEL is malformed',
    ],
  );
});

test('a problem says what was expected', () => {
  const { message } = problemsOf({ ...good, PORT: '70000', MODE: '' });
  assert.match(message, /PORT is malformed: expected a whole number from 1 to 65535/);
  assert.match(message, /MODE is missing: expected one of fast, safe/);
});

test('a value is never repeated, because it may be a secret', () => {
  const secret = fc.stringMatching(/^[a-z0-9]{12,40}$/);
  fc.assert(
    fc.property(secret, (value) => {
      const { message } = problemsOf({
        PORT: value,
        BATCH_MAX: value,
        MODE: value,
        STORE_URL: `redis//${value}`,
        BROKERS: `${value}:${value}`,
        EMULATOR: value,
        LEVEL: value,
      });
      assert.equal(message.includes(value), false);
    }),
  );
});

test('a value may be in a file, which then alone holds it', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-settings-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'name');
  writeFileSync(file, 'from the file\n');
  const { NAME, ...rest } = good;
  assert.equal(readSettings({ ...rest, NAME_FILE: file }, table).NAME, 'from the file');
  assert.ok(isSet({ NAME_FILE: file }, 'NAME') && isSet({ NAME }, 'NAME') && !isSet({}, 'NAME'));
  assert.match(problemsOf({ ...good, NAME_FILE: file }).message, /NAME and NAME_FILE are both set/);
  const { message } = problemsOf({ ...rest, NAME_FILE: `${file}.absent` });
  assert.match(message, /NAME_FILE names a file that cannot be read \(ENOENT\)/);
});

test('a whole number is digits within its limits and nothing else', () => {
  const { parse } = integer({ min: -5, max: 100 });
  assert.deepEqual(['-5', '0', '100', '007'].map(parse), [-5, 0, 100, 7]);
  for (const each of [
    '-6',
    '101',
    '1.0',
    '1e1',
    '0x10',
    '1 0',
    '+1',
    '',
    'Infinity',
    '9'.repeat(40),
  ]) {
    assert.equal(parse(each), undefined, each);
  }
});

test('an address is one host and port', () => {
  assert.equal(address.parse('localhost:8085'), 'localhost:8085');
  for (const each of ['localhost', 'http://localhost:8085', 'a:1,b:2', ':1', 'a:', 'a b:1']) {
    assert.equal(address.parse(each), undefined, each);
  }
});

function problemsOf(environment: NodeJS.ProcessEnv): SettingsError {
  try {
    readSettings(environment, table);
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
  throw new Error('the settings were read');
}

const modes = {
  ...modeSettings,
  STRIPE_API_KEY: withDefault(text, undefined),
  DATABASE_URL: withDefault(url(['postgres:', 'postgresql:']), undefined),
  REDIS_URL: withDefault(url(['redis:', 'rediss:']), undefined),
  KAFKA_BROKERS: withDefault(addresses, undefined),
  KAFKA_TLS: withDefault(oneOf(['on', 'off']), 'off'),
  KAFKA_USERNAME: withDefault(text, undefined),
  ADMIN_HOST: withDefault(text, '127.0.0.1'),
};

/** The settings that are refused, by their names. */
function refusedOf(environment: NodeJS.ProcessEnv): string[] {
  try {
    readSettings(environment, modes);
    return [];
  } catch (error) {
    assert.ok(error instanceof SettingsError);
    return error.problems.map((problem) => problem.replace(/ is refused, .*/, ''));
  }
}

test('production takes what is encrypted and live, and by name what is not encrypted', () => {
  const plain = {
    DATABASE_URL: 'postgres://a:b@db/c',
    REDIS_URL: 'redis://redis',
    KAFKA_BROKERS: 'kafka:9092',
  };
  assert.deepEqual(refusedOf(plain), ['DATABASE_URL', 'REDIS_URL', 'KAFKA_BROKERS']);
  for (const [part, setting] of [
    ['DATABASE', 'DATABASE_URL'],
    ['REDIS', 'REDIS_URL'],
    ['KAFKA', 'KAFKA_BROKERS'],
  ] as const) {
    const others = Object.keys(plain).filter((each) => each !== setting);
    assert.deepEqual(refusedOf({ ...plain, [`ALLOW_INSECURE_${part}`]: 'true' }), others);
    assert.deepEqual(refusedOf({ ...plain, [`ALLOW_INSECURE_${part}`]: 'false' }).length, 3);
  }
  const good = {
    STRIPE_API_KEY: 'sk_live_1',
    REDIS_URL: 'rediss://claims:secret@redis',
    KAFKA_BROKERS: 'kafka:9093',
    KAFKA_TLS: 'on',
    KAFKA_USERNAME: 'gateway',
  };
  assert.deepEqual(refusedOf(good), []);
  const { KAFKA_USERNAME: _, ...nobody } = { ...good, REDIS_URL: 'rediss://claims@redis' };
  assert.deepEqual(refusedOf(nobody), ['REDIS_URL', 'KAFKA_BROKERS']);
  const kept = { ALLOW_INSECURE_REDIS: 'true', ALLOW_INSECURE_KAFKA: 'true' };
  assert.deepEqual(refusedOf({ ...nobody, ...kept }), []);
  for (const everywhere of ['0.0.0.0', '::', '0', '0:0:0:0:0:0:0:0', '::ffff:0.0.0.0']) {
    assert.deepEqual(refusedOf({ ADMIN_HOST: everywhere }), ['ADMIN_HOST'], everywhere);
    assert.deepEqual(refusedOf({ ADMIN_HOST: everywhere, ALLOW_INSECURE_ADMIN: 'true' }), []);
  }
  for (const ADMIN_HOST of ['127.0.0.1', '10.0.0.5', '::1', 'localhost', 'fd00::5']) {
    assert.deepEqual(refusedOf({ ADMIN_HOST }), [], ADMIN_HOST);
  }
  for (const mode of [
    '',
    '?sslmode=disable',
    '?sslmode=require',
    '?sslmode=verify-full&sslmode=prefer',
  ]) {
    const DATABASE_URL = `postgresql://a:b@db/c${mode}`;
    assert.deepEqual(refusedOf({ DATABASE_URL }), ['DATABASE_URL'], mode);
  }
  assert.deepEqual(refusedOf({ DATABASE_URL: 'postgres://a:b@db/c?sslmode=verify-full' }), []);
});

test('a test key is refused in production, and a live one anywhere else', () => {
  const refusedWith = (mode: string, key: string) =>
    refusedOf({ TRIPLOCK_MODE: mode, STRIPE_API_KEY: key }).length > 0;
  for (const kind of ['sk', 'rk']) {
    assert.ok(refusedWith('production', `${kind}_test_1`));
    assert.ok(!refusedWith('production', `${kind}_live_1`));
    for (const mode of ['demo', 'test']) {
      assert.ok(!refusedWith(mode, `${kind}_test_1`));
      assert.ok(refusedWith(mode, `${kind}_live_1`));
    }
  }
});
