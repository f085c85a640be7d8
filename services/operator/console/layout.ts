import type { Session } from './console.ts';
import { html, type Html } from './html.ts';

/** A page in its frame: what all pages have around what they show. */
export function layout(
  { title, main }: { title: string; main: Html },
  session: Session | undefined,
): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · Triplock</title>
        <link rel="stylesheet" href="/assets/console.css" />
      </head>
      <body>
        ${session?.login === 'none' && html`<p role="note">Open on this machine: no log-in.</p>`}
        <main>
          <h1>${title}</h1>
          ${main}
        </main>
      </body>
    </html>`;
}
