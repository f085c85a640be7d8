import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Endpoints } from '@triplock/launcher';
import { chromiumPath, openBrowser, openPage } from './test/browser.ts';
import { newKey, partner } from './test/partner.ts';

/*
 * Takes the pictures of docs/ from the system that `npm run up` has started:
 * node_modules/node/bin/node e2e/screenshots.ts
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const picture = (name: string) => join(root, 'docs', 'images', `console-${name}.png`);

if (chromiumPath === undefined) throw new Error('there is no Chromium: set CHROMIUM to one');
const system = JSON.parse(
  readFileSync(join(root, '.triplock', 'endpoints.json'), 'utf8'),
) as Endpoints;
const acme = partner(system, 'acme');

/**
 * Something to see, and for so long that the charts have a shape: payments a moment apart, more and
 * fewer of them, every third of which is sent twice.
 */
const minutes = 3;
const order = {
  amount: 4_990,
  currency: 'EUR',
  reference: 'order-7',
  payment_method: 'pm_card_visa',
};
const browser = await openBrowser();
const { page } = await openPage(browser);
await page.goto(new URL('/', system.console).href);
let id = '';
const began = Date.now();
for (let nth = 0; Date.now() - began < minutes * 60_000; nth += 1) {
  const key = newKey();
  const answer = await acme.pay(key, order);
  if (nth % 3 === 0) await acme.pay(key, order);
  ({ id } = JSON.parse(answer.body) as { id: string });
  await delay(120 + 100 * Math.sin(nth / 60));
}
await page.locator('.caught.some').first().waitFor();
await page.screenshot({ path: picture('flow') });
await acme.payment(id, 30);
await page.goto(new URL(`/payments/${id}`, system.console).href);
await page.getByText('Attempt 1').waitFor();
await page.screenshot({ path: picture('payment') });
await page.goto(new URL('/break', system.console).href);
await page.getByRole('button', { name: 'Run worker-killed', exact: true }).click();
await page.locator('.pill', { hasText: /^held$/ }).waitFor({ timeout: 120_000 });
await page.screenshot({ path: picture('break') });
await browser.close();
