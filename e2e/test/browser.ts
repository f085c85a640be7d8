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

/**
 * What axe-core finds wrong with a page as it is shown now, by all its rules or by one: each rule
 * with where it is broken.
 */
export async function accessibilityOf(page: Page, rule?: string): Promise<string[]> {
  if (await page.evaluate(() => !('axe' in globalThis))) await page.evaluate(axe);
  return page.evaluate(async (only) => {
    const { run } = (globalThis as unknown as { axe: Axe }).axe;
    const { violations } = await run(only === undefined ? {} : { runOnly: [only] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  }, rule);
}

type Axe = {
  run(options: {
    runOnly?: string[];
  }): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
};

/** WCAG 2.2, 1.4.12: what readers may set without losing anything. */
const spacing = `
  * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em
  * !important }
  p { margin-block-end: 2em !important }`;
/** Letters that are wider than those of usual fonts, a tenth larger. */
const wide = ':root { font-size: 16.5px !important } * { font-family: monospace !important }';
const letters = { 'as it is': '', spacing, 'wide, and spacing': `${wide} ${spacing}` };

/** Runs in the page, on what is loaded: a sheet of its own comes and goes. */
const measure = `(letters) => {
  const sheet = new CSSStyleSheet();
  const { adoptedStyleSheets: before, documentElement: root } = document;
  document.adoptedStyleSheets = [...before, sheet];
  const found = Object.entries(letters).flatMap(([name, style]) => {
    sheet.replaceSync(style);
    const over = root.scrollWidth - root.clientWidth;
    return over > 0 ? name + ': ' + over + ' px' : [];
  });
  document.adoptedStyleSheets = before;
  return found;
}`;

/** With which letters the page is wider than its screen as that is now, and by how many pixels. */
export function tooWide(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(${measure})(${JSON.stringify(letters)})`);
}

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
