/**
 * Has promtool check Prometheus' configuration and rules, and run the rules' own tests. Exit code 1
 * when something is wrong; 0 with "skipped" where promtool cannot be had in any way.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { findPromtool, type Promtool } from '@triplock/launcher';

const folder = import.meta.dirname;
const filesOf = (pattern: string) => globSync(pattern, { cwd: folder }).sort();

const say = (line: string) => process.stdout.write(`rules: ${line}\n`);
const found = await findPromtool({ report: say, signal: new AbortController().signal });
switch (found.outcome) {
  case 'missing':
    say(`skipped: no promtool can be had: ${found.why.join('; ')}`);
    break;
  case 'found':
    say(`promtool: ${found.promtool.from}`);
    process.exitCode = (await isAllWell(found.promtool)) ? 0 : 1;
    break;
  default:
    found satisfies never;
}

async function isAllWell(promtool: Promtool): Promise<boolean> {
  const calls = [
    ['check', 'config', 'prometheus.yml'],
    ['check', 'rules', ...filesOf('rules/*.yml')],
    ['test', 'rules', ...filesOf('tests/*.yml')],
  ];
  for (const words of calls) {
    const { file, args } = promtool.command(folder);
    const child = spawn(file, [...args, ...words], { cwd: folder, stdio: 'inherit' });
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0) return false;
  }
  return true;
}
