import { operateByWords } from './operate.ts';

await operateByWords(process.argv.slice(2));
