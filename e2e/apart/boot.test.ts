import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { declarations, type OperatorCommand } from '@triplock/launcher';
import { compileCache, freePort, openCommands, testWebhookKeys } from '@triplock/testing';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** What each service's own table requires, and what it requires besides for the store it has. */
const required = declarations.map(({ name, settings }) => {
  const variables = Object.keys(settings).filter((each) => !('fallback' in settings[each]!));
  return [name, name === 'ingest-gateway' ? [...variables, 'REDIS_URL'] : variables] as const;
});

type Boot = { code: number; output: string };

const { PATH } = process.env;

/** Runs a service until it ends. Rejects when it had to be killed: a signal is no exit code. */
function boot(service: string, environment: Record<string, string>): Promise<Boot> {
  return new Promise((resolve, reject) => {
    const options = {
      cwd: root,
      env: { PATH, ...compileCache(), ...environment },
      timeout: 120_000,
    };
    execFile(
      process.execPath,
      [`services/${service}/main.ts`],
      options,
      (error, stdout, stderr) => {
        const [code, output] = [error === null ? 0 : error.code, stdout + stderr];
        if (typeof code === 'number') resolve({ code, output });
        else reject(new Error(`${service} did not end by itself: ${output}`, { cause: error }));
      },
    );
  });
}

for (const [service, variables] of required) {
  test(`${service} names every missing and malformed setting at once and starts nothing`, async () => {
    const none = await boot(service, {});
    assert.equal(none.code, 2, none.output);
    for (const variable of variables)
      assert.match(none.output, new RegExp(`${variable} is missing`));

    const secret = 'hunter2';
    const wrong = Object.fromEntries(variables.map((name) => [name, `::${secret}::`]));
    const malformed = await boot(service, { ...wrong, TRIPLOCK_MODE: 'chaos' });
    assert.equal(malformed.code, 2, malformed.output);
    assert.match(
      malformed.output,
      /TRIPLOCK_MODE is malformed: expected one of production, demo, test/,
    );
    assert.match(malformed.output, /ADMIN_PORT is malformed: expected a whole number/);
    assert.doesNotMatch(malformed.output, new RegExp(secret));
  });

  test(`${service} says which port is taken and which setting to change`, async () => {
    const holder = createServer().listen(await freePort(), '127.0.0.1');
    await new Promise((resolve) => holder.once('listening', resolve));
    try {
      const { port } = holder.address() as { port: number };
      const settings = {
        ...settingsFor(),
        ADMIN_PORT: String(port),
        HTTP_PORT: String(await freePort()),
      };
      const taken = await boot(service, settings);
      assert.equal(taken.code, 1, taken.output);
      assert.match(taken.output, new RegExp(`port ${port} on 127.0.0.1 is taken.*ADMIN_PORT`));
    } finally {
      holder.close();
    }
  });
}

/** What production refuses, by what a setting is called; the first that fits. */
const hostile: readonly (readonly [RegExp, string])[] = [
  [/^STRIPE_API_KEY$/, 'sk_test_hunter2'],
  [/^STRIPE_API_URL$/, 'https://api.stripe.com.evil.example'],
  [/_API_URL$/, 'http://hunter2'],
  [/_EMULATOR_HOST$/, '127.0.0.1:1'],
  [/^ADMIN_HOST$/, '0.0.0.0'],
  [/^REDIS_URL$/, 'redis://:hunter2@redis:6379'],
  [/^KAFKA_BROKERS$/, 'hunter2:9092'],
  [/DATABASE_URL$|^LEDGER_COPY_URL$/, 'postgres://nobody:hunter2@db/nothing?sslmode=require'],
  [/^DYNAMODB_ENDPOINT$/, 'http://hunter2:8000'],
  [/^CLAIMS$/, 'none'],
  [/^CRASH_POINTS$/, 'gateway.claimed=kill'],
  [/^CONSOLE_LOGIN$/, 'none'],
  [/^CONSOLE_ORIGIN$/, 'http://hunter2'],
  [/^CONSOLE_AGENT_URL$/, 'http://hunter2'],
  [/^CONSOLE_AGENT_TOKEN$/, 'hunter2'],
  [/^WEBHOOK_TARGETS$/, 'private-too'],
  [/^WEBHOOK_VERIFICATION$/, 'off'],
];
/** Addresses that production takes as they are, and why. */
const harmless = [
  /^OTEL_/, // Nothing that is secret is in a span.
  /^(AUDITOR_URL|CATCHER_URL|PROCESS_URLS)$/, // Operators' ports; the network keeps others out.
];

for (const { name, settings } of declarations) {
  test(`${name} refuses in production what is for trying out, all of it at once and by name`, async () => {
    const given = Object.keys(settings).flatMap((setting) => {
      const value = hostile.find(([form]) => form.test(setting))?.[1];
      // One that knows no such value refuses it in every mode.
      const isKnown = value !== undefined && settings[setting]!.parse(value) !== undefined;
      return isKnown ? [[setting, value] as const] : [];
    });
    const undecided = Object.entries(settings)
      .filter(([, { expected }]) => /URL|host:port/.test(expected))
      .map(([setting]) => setting)
      .filter((each) => !given.some(([setting]) => setting === each))
      .filter((each) => !harmless.some((form) => form.test(each)));
    assert.deepEqual(undecided, [], 'say above whether production refuses these');
    const { code, output } = await boot(name, {
      ...Object.fromEntries(given),
      FIRESTORE_EMULATOR_HOST: '127.0.0.1:1',
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
    });
    assert.equal(code, 2, output);
    const refused = [...output.matchAll(/^ {2}(\w+) is refused, TRIPLOCK_MODE is production: /gm)];
    assert.deepEqual(
      refused.map(([, setting]) => setting).sort(),
      [
        ...given.map(([setting]) => setting),
        'FIRESTORE_EMULATOR_HOST',
        'NODE_TLS_REJECT_UNAUTHORIZED',
      ].sort(),
    );
    assert.doesNotMatch(output, /hunter2/);
  });
}

test("every operator's command refuses the same, and an owner without a password", async (t) => {
  const environment = {
    PATH,
    ...compileCache(),
    STRIPE_API_KEY: 'rk_test_hunter2',
    DATABASE_URL: 'postgres://owner@db/triplock?sslmode=verify-full',
    PARTNERS_DATABASE_URL: 'postgres://nobody:hunter2@db/triplock',
  };
  const operate = new URL('../../services/operator/operate.ts', import.meta.url);
  const run = openCommands(t, { module: operate, name: 'operateByWords' }, environment);
  for (const words of Object.values(wordsOf)) {
    const { code, stdout, stderr } = await run(words);
    const output = stdout + stderr;
    assert.equal(code, 2, output);
    for (const setting of ['STRIPE_API_KEY', 'DATABASE_URL', 'PARTNERS_DATABASE_URL']) {
      assert.match(output, new RegExp(`${setting} is refused, TRIPLOCK_MODE is production`));
    }
    assert.doesNotMatch(output, /hunter2/);
  }
});

/** Each command as it goes on to read its settings. */
const wordsOf: Readonly<Record<OperatorCommand, readonly string[]>> = {
  audit: ['audit'],
  trace: ['trace', '37585521-60c9-8d90-a37f-2e1b8a7081e6'],
  'dead-letters': ['dead-letters', 'list'],
  republish: ['republish', '--since', '2026-01-01', '--by', 'ada'],
  rewind: ['rewind', '--since', '2026-01-01', '--by', 'ada'],
  'give-back': ['give-back', '37585521-60c9-8d90-a37f-2e1b8a7081e6', '--why', 'x', '--by', 'ada'],
  partners: ['partners', 'list'],
  operators: ['operators', 'list'],
  migrate: ['migrate'],
};

/** Well-formed settings that point at ports where nothing answers. */
function settingsFor(): Record<string, string> {
  return {
    TRIPLOCK_MODE: 'test',
    HTTP_PORT: '1',
    CONSOLE_PORT: '1',
    CONSOLE_LOGIN: 'none',
    REDIS_URL: 'redis://127.0.0.1:1',
    KAFKA_BROKERS: '127.0.0.1:1',
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing',
    PUBSUB_PROJECT_ID: 'nothing',
    STRIPE_API_KEY: 'sk_test_nobody',
    PUBSUB_EMULATOR_HOST: '127.0.0.1:1',
    WEBHOOK_KEYS: testWebhookKeys,
    ACTION_KEYS: testWebhookKeys,
  };
}
