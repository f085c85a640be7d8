import type { Section, Session } from '../console.ts';
import { html, type Html } from './html.ts';

/** The pages that the navigation leads to, in its order; a page that is not there is not shown. */
const sections: Readonly<Record<Section, { path: `/${string}`; title: string }>> = {
  flow: { path: '/', title: 'Flow' },
  payments: { path: '/payments', title: 'Payments' },
  'dead-letters': { path: '/dead-letters', title: 'Dead letters' },
  webhooks: { path: '/webhooks', title: 'Webhooks' },
  settlements: { path: '/settlements', title: 'Settlements' },
  partners: { path: '/partners', title: 'Partners' },
  audit: { path: '/audit', title: 'Audit' },
  acts: { path: '/acts', title: 'Acts' },
  break: { path: '/break', title: 'Break it' },
};

/** What a payment can be found by. */
export const findHint = 'Id, key, reference, provider’s id or webhook-id';

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
        <title>${title} · Triplock</title>
        <link rel="icon" href="/assets/icon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/assets/console.css" />
        <script src="/assets/htmx.min.js" defer></script>
        <script src="/assets/console.js" defer></script>
      </head>
      <body>
        <a class="skip" href="#main">To the content</a>
        <header>
          ${
            session?.login === 'none' &&
            html`<p class="open">
              Demo: whoever reaches this console on this machine may do everything.
            </p>`
          }
          <a class="brand" href="/">
            <svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
              <path d="M3 4v16M10 4v16M17 4v16" />
              <path class="arrow" d="M1 12h20m-4-4 4 4-4 4" />
            </svg>
            Triplock
          </a>
          ${session !== undefined && [navigation(section, session), search(), who(session)]}
        </header>
        <main id="main" tabindex="-1">
          <h1>${title}</h1>
          ${main}
        </main>
        <footer>All times are UTC.</footer>
      </body>
    </html>`;
}

/** Things are broken on a machine of one's own, where nobody logs in. */
function navigation(current: Section | undefined, { login }: Session): Html {
  const links = Object.entries(sections).filter(([name]) => name !== 'break' || login === 'none');
  return html`<nav aria-label="Pages">
    <ul>
      ${links.map(
        ([name, { path, title }]) =>
          html`<li>
            ${
              name === current
                ? html`<a href="${path}" aria-current="page">${title}</a>`
                : html`<a href="${path}">${title}</a>`
            }
          </li>`,
      )}
    </ul>
  </nav>`;
}

function search(): Html {
  return html`<form class="find" role="search" action="/payments/find">
    <label class="unseen" for="find">Find a payment</label>
    <input id="find" type="search" name="q" maxlength="300" placeholder="${findHint}" />
    <button>Find</button>
  </form>`;
}

function who({ operator, role, login, csrf }: Session): Html | undefined {
  if (login === 'none') return undefined;
  return html`<form class="who" method="post" action="/logout">
    <span>${operator}, ${role}</span>
    <input type="hidden" name="csrf" value="${csrf}" />
    <button class="quiet">Log out</button>
  </form>`;
}
