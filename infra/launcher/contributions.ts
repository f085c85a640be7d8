import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { statementsIn } from '@triplock/postgres';
import type { ServiceDeclaration } from '@triplock/runtime';

/**
 * What is wrong with what services bring to be audited and watched, each in a sentence that begins
 * with the file to mend.
 */
export function problemsOfContributions(
  clone: string,
  listed: readonly ServiceDeclaration[],
): string[] {
  const all = listed.flatMap((service) => problemsOfOne(clone, service));
  const checks = named(listed, 'audit/rules.ts', ({ rules }) => rules);
  const figures = named(listed, 'service.ts', ({ way, watch }) => ({
    ...(way ?? watch)?.counters,
    ...(way ?? watch)?.gauges,
  }));
  return [...all, ...twice('check', checks), ...twice('figure', figures)];
}

function problemsOfOne(clone: string, { name, inbox, rules, watch }: ServiceDeclaration): string[] {
  const of = (file: string) => `services/${name}/${file}`;
  const lacking = inbox === true ? ['audit/harms.testing.ts', 'watch/watch.ts'] : [];
  const missing = lacking
    .filter((file) => !existsSync(join(clone, of(file))))
    .map((file) => `${of(file)} is not there: what a consumer brings is in CONTRIBUTING.md`);
  if (inbox === true && watch === undefined) {
    missing.push(`${of('service.ts')} declares no watch: take it from ./watch/watch.ts`);
  }
  const file = join(clone, of('audit/checks.sql'));
  if (!existsSync(file)) {
    const names = Object.keys(rules ?? {});
    if (names.length > 0) missing.push(`${of('audit/checks.sql')} is not there, for ${names[0]}`);
    return missing;
  }
  const statements = [...statementsIn(readFileSync(file, 'utf8')).keys()];
  const checks = statements.map((statement) => statement.replaceAll('_', '-'));
  const ruled = Object.keys(rules ?? {});
  return [
    ...missing,
    ...checks
      .filter((check) => !ruled.includes(check))
      .map((check) => `${of('service.ts')} declares no rule for ${check}, of audit/checks.sql`),
    ...ruled
      .filter((check) => !checks.includes(check))
      .map((check) => `${of('audit/checks.sql')} has no ${check.replaceAll('-', '_')}`),
  ];
}

type Named = { name: string; file: string };

function named(
  listed: readonly ServiceDeclaration[],
  file: string,
  part: (service: ServiceDeclaration) => object | undefined,
): Named[] {
  return listed.flatMap((service) =>
    Object.keys(part(service) ?? {}).map((name) => ({
      name,
      file: `services/${service.name}/${file}`,
    })),
  );
}

function twice(what: string, all: readonly Named[]): string[] {
  return all.flatMap(({ name, file }, at) => {
    const first = all.find((each) => each.name === name)!;
    return all.indexOf(first) === at
      ? []
      : [`${file} names the ${what} ${name}, which is in ${first.file} already`];
  });
}
