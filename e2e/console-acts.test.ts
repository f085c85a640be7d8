import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { topics } from '@triplock/contracts';
import { eventually, freePort, startService } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { chromiumPath, openBrowser, openPage } from './test/browser.ts';
import { newKey } from './test/partner.ts';
import { command, onTheSystem } from './test/system.ts';

const on = onTheSystem();
const skip = chromiumPath === undefined && 'there is no Chromium: apt-get install chromium';

let browser: Browser | undefined;
before(async () => {
  if (!skip) browser = await openBrowser();
});
after(() => browser?.close());

const at = (path: string) => new URL(path, on.system.console).href;

test('an audit is run by its form, and recorded with its reason', { skip }, async () => {
  const { page, complaints } = await openPage(browser!);
  await page.goto(at('/audit'));
  await page.getByLabel('Reason').fill('a look after the fault');
  await page.getByRole('button', { name: 'Run the audit now' }).click();
  await page.waitForURL(/\/acts\/\d+$/, { timeout: 60_000 });
  const act = await page.locator('main').innerText();
  assert.match(act, /a look after the fault/);
  assert.match(act, /audit\.run/);
  assert.deepEqual(complaints, []);
  await page.close();
});

test(
  'what the provider has of a payment that was declined is asked for on its page, and found to be nothing',
  { skip },
  async () => {
    const order = { amount: 12_50, currency: 'EUR', payment_method: 'pm_card_chargeDeclined' };
    const answer = await on.acme.pay(newKey(), order);
    assert.equal(answer.status, 202, answer.body);
    const { id } = JSON.parse(answer.body) as { id: string };
    await on.acme.payment(id, 30);
    const { page, complaints } = await openPage(browser!);
    await page.goto(at(`/payments/${id}`));
    await page.locator('summary', { hasText: 'Give back' }).click();
    await page.getByLabel('Reason').fill('the customer says that the bank took it');
    await page.getByRole('button', { name: 'Give back' }).click();
    await page.waitForURL(/\/acts\/\d+$/, { timeout: 60_000 });
    const act = await page.locator('main').innerText();
    assert.match(act, /the customer says that the bank took it/);
    assert.match(act, /nothing to do/);
    assert.match(act, /pi_\w+ is cancelled/);
    assert.deepEqual(complaints, []);
    await page.close();
  },
);

type Letters = { letters: { id: string; about: string }[] };

/** Dead letters whose record has this key, the oldest first. */
async function lettersOf(key: string, show = 'waiting'): Promise<string[]> {
  const answer = await fetch(at(`/api/v1/dead-letters?show=${show}`));
  const { letters } = (await answer.json()) as Letters;
  return letters.filter(({ about }) => about === key).map(({ id }) => id);
}

/** Sends a record that is no payment, and waits until it was set aside. */
async function setAside(): Promise<{ key: string; letter: string }> {
  const brokers = [on.system.kafka];
  const producer = new Kafka({ clientId: 'e2e', brokers, logLevel: logLevel.NOTHING }).producer();
  const key = newKey('poison');
  await producer.connect();
  await producer.send({ topic: topics.accepted, messages: [{ key, value: 'no payment' }] });
  await producer.disconnect();
  const [letter] = await eventually(
    async () => {
      const found = await lettersOf(key);
      return found.length > 0 && found;
    },
    { withinMs: 60_000, what: 'the dead letter' },
  );
  return { key, letter: letter! };
}

/** Chooses dead letters on their page, presses a button, and gives what the act's page says. */
async function act(page: Page, button: string, letters: readonly string[]): Promise<string> {
  await page.goto(at('/dead-letters'));
  const form = page.locator('form.act', { has: page.getByLabel(letters[0]!, { exact: true }) });
  for (const letter of letters) await form.getByLabel(letter, { exact: true }).check();
  await form.getByLabel('Reason').fill('a look at it');
  await form.getByRole('button', { name: button }).click();
  await page.waitForURL(/\/acts\/\d+$/);
  return page.locator('main').innerText();
}

test(
  'a dead letter is redriven once, whoever asks again, and dismissed with a reason',
  { skip },
  async () => {
    const { key, letter } = await setAside();
    const { page, complaints } = await openPage(browser!);
    assert.match(await act(page, 'Redrive', [letter]), new RegExp(`${letter}: redriven$`, 'm'));
    // It is as bad as before, so it comes back, as another one.
    const letters = await eventually(
      async () => {
        const found = await lettersOf(key);
        return found.length === 2 && found;
      },
      { withinMs: 60_000, what: 'the second dead letter' },
    );
    assert.match(await act(page, 'Redrive', [letter]), /redriven before, .* by demo: a look at it/);
    assert.match(await act(page, 'Dismiss', letters), /: dismissed; it had been redriven/);
    assert.deepEqual(await lettersOf(key), []);
    // Two and no third: nothing was appended by the second redrive.
    assert.deepEqual(await lettersOf(key, 'dismissed'), letters);

    await page.goto(at('/dead-letters'));
    await page.getByRole('link', { name: 'Show what was dismissed' }).click();
    const link = page.getByRole('link', { name: letter, exact: true });
    const row = page.getByRole('row').filter({ has: link });
    assert.match(await row.innerText(), /by demo: a look at it/);
    assert.equal(await row.getByRole('checkbox').count(), 0);
    await page.goto(at(`/dead-letters/${letter}`));
    await page.getByLabel('Reason').fill('once more');
    await page.getByRole('button', { name: 'Redrive' }).click();
    await page.waitForURL(/\/acts\/\d+$/);
    assert.match(await page.locator('main').innerText(), /dismissed before, .* by demo/);
    assert.deepEqual(complaints, []);
    await page.close();
  },
);

test(
  'a viewer sees nothing to press, and a form that is sent all the same is refused',
  { skip },
  async (t) => {
    const { letter } = await setAside();
    const origin = `http://127.0.0.1:${await freePort()}`;
    const service = startService(t, new URL('../services/console/main.ts', import.meta.url), {
      TRIPLOCK_MODE: 'test',
      ADMIN_PORT: String(await freePort()),
      CONSOLE_PORT: new URL(origin).port,
      CONSOLE_ORIGIN: origin,
      DATABASE_URL: on.system.databases.console,
      OPERATOR_DATABASE_URL: on.system.databases.operator,
      PARTNERS_DATABASE_URL: on.system.databases.partners,
      KAFKA_BROKERS: on.system.kafka,
    });
    await service.ready();
    const name = `viewer-${Date.now()}`;
    const added = await command('operators', 'add', name, '--role', 'viewer', '--json');
    const { token } = JSON.parse(added.stdout) as { token: string };
    const { page, complaints } = await openPage(browser!);
    await page.goto(`${origin}/login`);
    await page.getByLabel('Your token').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText(`${name}, viewer`).waitFor();
    for (const path of [
      '/dead-letters',
      `/dead-letters/${letter}`,
      '/webhooks',
      '/partners',
      '/audit',
    ]) {
      await page.goto(`${origin}${path}`);
      const link = page.getByRole('link', { name: letter, exact: true });
      if (path === '/dead-letters') await link.waitFor();
      assert.equal(await page.locator('form.act').count(), 0, path);
    }
    // The form that logs out carries the token of their session: have it ask for an act.
    await page.evaluate(`
    const form = document.querySelector('form.who');
    form.action = '/acts/dead-letters.redrive';
    for (const [name, value] of [['id', '${letter}'], ['reason', 'mine']]) {
      form.append(Object.assign(document.createElement('input'), { name, value }));
    }
  `);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByText('This takes the role operator, and yours is viewer.').waitFor();
    const done = 'SELECT FROM console.acts WHERE done_by = $1';
    assert.deepEqual(await on.look.database.query(done, [name]), []);
    assert.deepEqual(complaints, []);
    await page.close();
    await command('operators', 'revoke', name);
  },
);
