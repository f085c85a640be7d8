import type { Endpoints } from '@triplock/launcher';
import { renderTable, style } from '@triplock/operator';
import type { StoryReport } from './story.ts';

/** The end of a story, and where its system goes on running. */
export type Told = { story: StoryReport; endpoints: Endpoints };

/** What a person who saw the story can try next, ready to be pasted. */
export function renderInvitation({ story, endpoints }: Told, home: string | undefined): string[] {
  const acme = endpoints.partners.find(({ id }) => id === 'acme')!;
  const run = (command: string, words = '') => {
    const rest = [words, ...(home === undefined ? [] : [`--home '${home}'`])].join(' ').trim();
    return `npm run ${command}${rest === '' ? '' : ` -- ${rest}`}`;
  };
  const killed = story.steps.find(({ name }) => name === 'dispatcher-killed');
  const [seen] = killed?.observation?.ids ?? [];
  const offers = [
    [run('trace', 'acme my-first-payment'), 'follow it through every layer'],
    ...(seen === undefined ? [] : [[run('trace', seen), 'one whose event was published twice']]),
    [run('scenario', 'worker-killed'), 'break something again; --list shows what'],
    [run('audit'), 'reconcile every layer'],
    [`${endpoints.gateway}/docs`, 'read about the API'],
  ];
  const [, ...lines] = renderTable([{ head: '' }, { head: '' }], offers);
  return [
    `${style.title('It stays up until Ctrl-C.')} From another terminal, send this twice:`,
    '',
    `   curl -i ${endpoints.gateway}/v1/payments \\`,
    `     -H 'Authorization: Bearer ${acme.apiKey}' \\`,
    `     -H 'Idempotency-Key: my-first-payment' -H 'Content-Type: application/json' \\`,
    `     -d '{"amount":1250,"currency":"EUR"}'`,
    '',
    ...lines.map((line) => `   ${line}`),
    '',
  ];
}
