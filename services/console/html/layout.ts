import type { Session } from '../console.ts';
import { html, type Html } from './html.ts';
import { words } from './words.ts';

/** The pages that the navigation leads to, in its order; a page that is not there is not shown. */
export const sections = {
  flow: '/',
  payments: '/payments',
  'dead-letters': '/dead-letters',
  webhooks: '/webhooks',
  settlements: '/settlements',
  partners: '/partners',
  audit: '/audit',
  acts: '/acts',
  break: '/break',
} as const;
export type Section = keyof typeof sections;

/** What all pages have around what they show. */
export type Framed = { title: string; main: Html; section?: Section };

/**
 * htmx asks, swaps and does nothing else: no code in attributes, no styles of its own, no pages
 * kept in the browser's store.
 */
const htmxConfig = JSON.stringify({ includeIndicatorCSS: false, history: false });

/** A page in its frame. Without a session nobody is logged in, and nothing leads on. */
export function layout({ title, main, section }: Framed, session: Session | undefined): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="htmx-config" content="${htmxConfig}" />
        <title>${title} · ${words.product}</title>
        <link rel="icon" href="/assets/icon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/assets/console.css" />
        <script src="/assets/htmx.min.js" defer></script>
        <script src="/assets/console.js" defer></script>
      </head>
      <body>
        <a class="skip" href="#main">${words.skip}</a>
        <header>
          ${session?.login === 'none' && html`<p class="open">${words.open}</p>`}
          <a class="brand" href="/">
            <svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
              <path d="M3 4v16M10 4v16M17 4v16" />
              <path class="arrow" d="M1 12h20m-4-4 4 4-4 4" />
            </svg>
            ${words.product}
          </a>
          ${session !== undefined && [navigation(section, session), search(), who(session)]}
        </header>
        <main id="main" tabindex="-1">
          <h1>${title}</h1>
          ${main}
        </main>
        <footer>${words.utc}</footer>
      </body>
    </html>`;
}

/** Things are broken on a machine of one's own, where nobody logs in. */
function navigation(current: Section | undefined, { login }: Session): Html {
  const all = Object.entries(sections) as [Section, string][];
  const links = all.filter(([name]) => name !== 'break' || login === 'none');
  return html`<nav aria-label="${words.pagesLabel}">
    <ul>
      ${links.map(
        ([name, path]) =>
          html`<li>
            ${
              name === current
                ? html`<a href="${path}" aria-current="page">${words.pages[name]}</a>`
                : html`<a href="${path}">${words.pages[name]}</a>`
            }
          </li>`,
      )}
    </ul>
  </nav>`;
}

function search(): Html {
  return html`<form class="find" role="search" action="/payments/find">
    <label class="unseen" for="find">${words.find}</label>
    <input id="find" type="search" name="q" maxlength="300" placeholder="${words.findHint}" />
    <button>${words.findButton}</button>
  </form>`;
}

function who({ operator, role, login, csrf }: Session): Html | undefined {
  if (login === 'none') return undefined;
  return html`<form class="who" method="post" action="/logout">
    <span>${words.signedIn(operator, role)}</span>
    <input type="hidden" name="csrf" value="${csrf}" />
    <button class="quiet">${words.logOut}</button>
  </form>`;
}
