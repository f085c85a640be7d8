import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { killProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { accessibilityOf, chromiumPath, openBrowser, openPage, tooWide } from './test/browser.ts';
import { newKey } from './test/partner.ts';
import { home, onTheSystem, upSystem } from './test/system.ts';

const on = onTheSystem();
const skip = chromiumPath === undefined && 'there is no Chromium: apt-get install chromium';

let browser: Browser | undefined;
before(async () => {
  if (!skip) browser = await openBrowser();
});
after(() => browser?.close());

const at = (path: string) => new URL(path, on.system.console).href;
const order = { amount: 12_50, currency: 'EUR', reference: '<img src=x onerror=alert(1)>' };

async function paid(more: { payment_method?: string } = {}): Promise<{ id: string; key: string }> {
  const key = newKey();
  const answer = await on.acme.pay(key, { ...order, ...more });
  assert.equal(answer.status, 202, answer.body);
  const { id } = JSON.parse(answer.body) as { id: string };
  await on.acme.payment(id, 30);
  await eventually(async () => (await on.look.webhooks(id)).length > 0);
  return { id, key };
}

test('a payment is found by its key and followed to its webhook', { skip }, async () => {
  const { id, key } = await paid();
  const { page, complaints } = await openPage(browser!);
  await page.goto(at('/'));
  await page.getByRole('searchbox').fill(key);
  await page.getByRole('button', { name: 'Find' }).click();
  await page.waitForURL(at(`/payments/${id}`));
  const way = await page.locator('ol.way').innerText();
  const layers = ['Guard 1', 'Kafka', 'Guard 2', 'Guard 3a', 'Guard 3b', 'Webhook'];
  for (const layer of layers) assert.match(way, new RegExp(layer));
  assert.match(await page.locator('main').innerText(), /12\.50\sEUR/);
  await page.getByRole('link', { name: 'Ask the layers' }).click();
  await page.getByText(/completed, kept/).waitFor();
  await page.getByRole('link', { name: 'Show the raw forms' }).click();
  await page.locator('#raw pre').first().waitFor();
  // What the partner wrote is text, wherever it is shown.
  assert.equal(await page.locator('main img').count(), 0);
  assert.deepEqual(complaints, []);
  await page.close();
});

test(
  'the flow tells, without a reload, what passes and which process is away',
  { skip },
  async () => {
    const { page, complaints } = await openPage(browser!);
    await page.goto(at('/'));
    const gateway = page.getByRole('region', { name: 'ingest-gateway' });
    const worker = page.getByRole('region', { name: 'ledger-worker' });
    // What a gateway counted before the console first looked at it counts as nothing caught.
    await gateway.getByText('2 of 2 up').waitFor({ timeout: 60_000 });
    const key = newKey();
    for (const _ of ['a payment', 'its retry']) await on.acme.pay(key, order);
    await gateway.locator('.caught.some').waitFor({ timeout: 60_000 });
    await killProcess({ home, name: 'ledger-worker-1' });
    try {
      await worker.getByText('1 of 2 up').waitFor({ timeout: 60_000 });
    } finally {
      await upSystem();
    }
    await worker.getByText('2 of 2 up').waitFor({ timeout: 60_000 });
    assert.deepEqual(complaints, []);
    await page.close();
  },
);

test(
  'a window whose stream makes way for others says so, and does not ask for it again',
  { skip },
  async (t) => {
    const { page, complaints } = await openPage(browser!);
    await page.goto(at('/'));
    await page.getByRole('region', { name: 'ingest-gateway' }).waitFor({ timeout: 60_000 });
    const others = new AbortController();
    t.after(() => others.abort());
    // As many as whoever is logged in, or nobody is, has at once.
    const { signal } = others;
    const streams = Array.from({ length: 32 }, () => fetch(at('/flow/events'), { signal }));
    await page.getByText(/You opened more windows/).waitFor({ timeout: 60_000 });
    const live = page.locator('[data-live]');
    await eventually(() =>
      live.evaluate((element: unknown) => {
        const { _htmx: kept } = element as { _htmx?: { sse?: object } };
        return kept !== undefined && kept.sse === undefined;
      }),
    );
    const statuses = (await Promise.all(streams)).map(({ status }) => status);
    assert.deepEqual(new Set(statuses), new Set([200]));
    assert.deepEqual(complaints, []);
    await page.close();
  },
);

test(
  'a retry, a killed worker and a payment meanwhile, all of it held, by clicking',
  { skip },
  async (t) => {
    if (on.system.agent === undefined) return t.skip('an agent runs where the system is processes');
    const { page, complaints } = await openPage(browser!);
    await page.goto(at('/'));
    await page.getByRole('link', { name: 'Break it' }).click();
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
    const worker = page.getByRole('listitem').filter({ hasText: 'ledger-worker-1' });
    try {
      // Pays, and sends the same payment again.
      await press('Run retry');
      const story = page.getByRole('log', { name: /^npm run scenario -- retry/ });
      await story.getByText('guard 1 claims').waitFor({ timeout: 60_000 });
      await page.locator('.pill', { hasText: /^held$/ }).waitFor({ timeout: 60_000 });
      await press('Kill ledger-worker-1');
      await worker.getByText('away').waitFor({ timeout: 30_000 });
      const { id, key } = await paid();
      await press('Start again ledger-worker-1');
      await worker.getByText('up', { exact: true }).waitFor({ timeout: 60_000 });
      await page.getByRole('searchbox').fill(key);
      await page.getByRole('button', { name: 'Find' }).click();
      await page.waitForURL(at(`/payments/${id}`));
      await page.getByText('succeeded').first().waitFor();
      await page.getByRole('link', { name: 'Break it' }).click();
      await press('Run the audit');
      await page.waitForURL(/\/acts\/\d+$/, { timeout: 60_000 });
      assert.match(await page.locator('main').innerText(), /no drift/);
    } catch (error) {
      // Otherwise it was started again by clicking.
      await upSystem();
      throw error;
    }
    assert.deepEqual(complaints, []);
    await page.close();
  },
);

const screens = {
  desk: { width: 1_280, height: 860 },
  phone: { width: 390, height: 844 },
  small: { width: 320, height: 640 },
};
const pages = [
  '/',
  '/payments',
  '/payments?status=nothing',
  '/payments/find?q=nobody-has-this',
  '/dead-letters',
  '/dead-letters?show=dismissed',
  '/webhooks?partner=acme',
  '/settlements',
  '/partners',
  '/audit',
  '/acts',
  '/break',
  '/nothing-here',
];

test(
  'axe finds nothing on any page, on a desk and a phone, in light and dark, and none is wider than its screen, whatever its letters',
  { skip },
  async () => {
    const { id } = await paid();
    // Of a card that was declined the page has an act.
    const declined = await paid({ payment_method: 'pm_card_chargeDeclined' });
    const { page, complaints } = await openPage(browser!);
    for (const path of [...pages, `/payments/${id}`, `/payments/${declined.id}`]) {
      await page.goto(at(path));
      // Folded forms, too.
      for (const folded of await page.locator('main details > summary').all()) {
        await folded.click();
      }
      for (const screen of ['desk', 'phone'] as const) {
        await page.setViewportSize(screens[screen]);
        await page.emulateMedia({ colorScheme: 'light' });
        assert.deepEqual(await accessibilityOf(page), [], `${path}, ${screen}`);
        await page.emulateMedia({ colorScheme: 'dark' });
        // All that the dark changes.
        assert.deepEqual(await accessibilityOf(page, 'color-contrast'), [], `${path}, ${screen}`);
      }
      for (const [screen, size] of Object.entries(screens)) {
        await page.setViewportSize(size);
        assert.deepEqual(await tooWide(page), [], `${path}, ${screen}`);
      }
      assert.deepEqual(complaints, [], path);
    }
    await page.close();
  },
);

test('the first page comes in less than 150 KB, and from the console alone', { skip }, async () => {
  const { page } = await openPage(browser!);
  const loaded: Promise<{ url: string; bytes: number }>[] = [];
  page.on('response', (answer) => {
    const url = answer.url();
    if (url.endsWith('/flow/events')) return;
    loaded.push(answer.body().then(({ length: bytes }) => ({ url, bytes })));
  });
  await page.goto(at('/'));
  await eventually(async () => loaded.length >= 5);
  const all = await Promise.all(loaded);
  const bytes = all.reduce((sum, each) => sum + each.bytes, 0);
  assert.ok(bytes < 150_000, `${bytes} bytes`);
  for (const { url } of all) assert.equal(new URL(url).origin, new URL(at('/')).origin);
  await page.close();
});
