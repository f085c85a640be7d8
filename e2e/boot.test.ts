import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { declarations } from '@triplock/launcher';
import { freePort } from '@triplock/testing';

const root = fileURLToPath(new URL('../', import.meta.url));

/** What each service's own table requires, and what it requires besides for the store it has. */
const required = declarations.map(({ name, settings }) => {
  const variables = Object.keys(settings).filter((each) => !('fallback' in settings[each]!));
  return [name, name === 'ingest-gateway' ? [...variables, 'REDIS_URL'] : variables] as const;
});

type Boot = { code: number; output: string };

const { PATH, NODE_COMPILE_CACHE } = process.env;

/** Runs a service until it ends by itself. */
function boot(service: string, environment: Record<string, string>): Promise<Boot> {
  return new Promise((resolve) => {
    const options = {
      cwd: root,
      env: { PATH, NODE_COMPILE_CACHE, ...environment },
      timeout: 60_000,
    };
    execFile(
      process.execPath,
      [`services/${service}/main.ts`],
      options,
      (error, stdout, stderr) => {
        resolve({ code: Number(error?.code ?? 0), output: stdout + stderr });
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

/** Well-formed settings that point at ports where nothing answers. */
function settingsFor(): Record<string, string> {
  return {
    HTTP_PORT: '1',
    REDIS_URL: 'redis://127.0.0.1:1',
    KAFKA_BROKERS: '127.0.0.1:1',
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing',
    PUBSUB_PROJECT_ID: 'nothing',
    STRIPE_API_KEY: 'sk_test_nobody',
    PUBSUB_EMULATOR_HOST: '127.0.0.1:1',
  };
}
