import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Page } from 'playwright-core';

/** Where systems have a Chromium; CHROMIUM names another one. */
const usualPaths = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** The system's Chromium; `undefined` where there is none, and tests say that they were skipped. */
export const chromiumPath = [process.env['CHROMIUM'], ...usualPaths].find(
  (path) => path !== undefined && existsSync(path),
);

/** What keeps a browser from asking anybody but the console. */
const flags = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Starts the system's Chromium without a window. @throws when there is none. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: chromiumPath!, headless: true, args: flags });
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe-core finds wrong with a page as it is shown now: each rule with where it is broken. */
export async function accessibilityOf(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { run } = (globalThis as unknown as { axe: Axe }).axe;
    const { violations } = await run();
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  });
}

type Axe = {
  run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
};

/** Pages that tell a browser's own complaints: a script that failed, what the policy kept away. */
export async function openPage(browser: Browser, size = { width: 1_280, height: 860 }) {
  const page = await browser.newPage({ viewport: size });
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    const isRefusedPage = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isRefusedPage) complaints.push(message.text());
  });
  return { page, complaints };
}
