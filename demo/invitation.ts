import type { Endpoints } from '@triplock/infra';
import type { StoryReport } from './story.ts';
import { style } from './terminal/style.ts';

/** A story that was told, and where the system of it goes on living. */
export type Told = { story: StoryReport; endpoints: Endpoints };

/** What a person who saw the story can try next, ready to be pasted. */
export function renderInvitation({ story, endpoints }: Told): string[] {
  const acme = endpoints.partners.find(({ id }) => id === 'acme')!;
  const last = story.steps.at(-1)?.observation?.ids[0];
  const home = endpoints.home.endsWith('/.triplock') ? '' : ` --home ${endpoints.home}`;
  return [
    `${style.title('The system is up until Ctrl-C.')} Try it from another terminal; send this twice:`,
    '',
    `   curl -i ${endpoints.gateway}/v1/payments \\`,
    `     -H 'Authorization: Bearer ${acme.apiKey}' \\`,
    `     -H 'Idempotency-Key: my-first-payment' -H 'Content-Type: application/json' \\`,
    `     -d '{"amount":1250,"currency":"EUR"}'`,
    '',
    `   npm run trace -- acme my-first-payment${home}`.padEnd(52) +
      'one payment through every layer',
    ...(last === undefined ? [] : [`   npm run trace -- ${last}${home}`]),
    `   npm run scenario -- worker-killed${home}`.padEnd(52) + 'break something again (--list)',
    `   npm run audit${home === '' ? '' : ` --${home}`}`.padEnd(52) + 'reconcile every layer',
    `   ${endpoints.gateway}/docs`.padEnd(52) + 'the API',
  ];
}
