import { parseArgs } from 'node:util';
import { aspects, judge, type Aspect } from './judge.ts';

const help = `
npm run lint -- [options]
npm run typecheck -- [options]

Judges every file that is not known to be good: by the rules and the format, or by its types.
\`npm run check\` and \`npm test\` do both in one go.

  --again   also what is known to be good
  --help
`;

const { values, positionals } = parseArgs({
  options: { again: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  allowPositionals: true,
});
const by = aspects.filter((aspect: Aspect) => positionals.includes(aspect));

if (values.help) {
  process.stdout.write(`${help.trim()}\n`);
} else {
  const report = (line: string) => process.stdout.write(`${line}\n`);
  const good = await judge({
    ...(by.length > 0 && { by }),
    again: values.again === true,
    report,
  });
  if (!good) process.exitCode = 1;
}
