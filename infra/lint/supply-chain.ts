import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { allowedLicences } from './licences/allowed.ts';
import {
  countLicences,
  findUnlicensed,
  licencesOfFetched,
  renderLicences,
  type FetchedLicences,
} from './licences/fetched.ts';
import { findFloating, thirdPartyImages } from './image-digests.ts';
import { folderOf, locksOf, readLockFile, type Lock } from './licences/npm.ts';
import { findPassedOver } from './licences/passed-over.ts';
import { root, workspaceFiles } from './workspace-files.ts';

// What comes from others is what we meant, may be used, and is not known to do harm; and nothing
// secret goes out with the sources. Nothing is asked but the registries of packages.

/** Advisories that do no harm here, by their URL, and why. */
const harmless: Readonly<Record<string, string>> = {};

const registry = 'https://registry.npmjs.org/';
const sbomFile = '.triplock/sbom.cdx.json';

export function readLock(): Lock {
  return readLockFile(readFileSync(`${root}package-lock.json`, 'utf8'));
}

/** Entries that npm would take from elsewhere, or whatever they hold. */
export function findLoose(lock: Lock): string[] {
  return Object.entries(lock).flatMap(([path, { version, resolved, integrity }]) => [
    ...(/^sha512-[\w+/]{86}==$/.test(integrity ?? '') ? [] : [`${path}: no SHA-512 of it`]),
    ...(/^\d+\.\d+\.\d+/.test(version ?? '') ? [] : [`${path}: no version of the registry`]),
    ...(resolved === undefined || resolved.startsWith(registry)
      ? []
      : [`${path}: from ${new URL(resolved).host}, not from the public registry`]),
  ]);
}

/** What gives a secret away. Each is a form that its issuer has documented. */
const secrets: Readonly<Record<string, RegExp>> = {
  'a live key of Stripe': /\b[sr]k_live_\w{16,}/g,
  'a private key': /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----/g,
  'a webhook secret': /\bwhsec_[\w+/=-]{24,}/g,
  'a key of AWS': /\bA(?:KIA|SIA)[0-9A-Z]{16}\b/g,
  'a key of Google': /\bAIza[\w-]{35}\b/g,
  'a token of GitHub': /\b(?:gh[pousr]_\w{36}|github_pat_\w{22,})\b/g,
  'a token of npm': /\bnpm_\w{36}\b/g,
};

/** Secrets in a text, by their kind and line; never the secret itself. */
export function findSecrets({ path, text }: { path: string; text: string }): string[] {
  return Object.entries(secrets).flatMap(([kind, form]) =>
    [...text.matchAll(form)]
      .filter(([found]) => !isReadable(found))
      .map(({ index }) => `${path}:${text.slice(0, index).split('\n').length}: ${kind}`),
  );
}

/** Whether the bytes of a webhook secret are words: those of tests are, and no random ones. */
function isReadable(found: string): boolean {
  const [, encoded] = /^whsec_(.*)$/.exec(found) ?? [];
  return (
    encoded !== undefined && /^[a-z0-9 -]+$/.test(Buffer.from(encoded, 'base64').toString('latin1'))
  );
}

type Advisory = { title: string; url: string; severity: string };

/** What `npm audit --json` prints: advisories by package, or that it could not ask. */
export type Audited = {
  error?: unknown;
  message?: string;
  vulnerabilities?: Readonly<Record<string, { via: readonly (string | Advisory)[] }>>;
};

/** Advisories about what is installed; `not-asked` is no answer, and is never taken for one. */
export type Advisories =
  { outcome: 'asked'; harmful: string[]; others: string[] } | { outcome: 'not-asked'; why: string };

export function readAudit({ error, message, vulnerabilities }: Audited): Advisories {
  if (error !== undefined || vulnerabilities === undefined) {
    return { outcome: 'not-asked', why: message ?? 'npm audit gave no answer' };
  }
  const known = Object.entries(vulnerabilities).flatMap(([name, { via }]) =>
    via
      .filter((each) => typeof each === 'object')
      .filter(({ url }) => harmless[url] === undefined)
      .map(({ title, url, severity }) => ({
        severity,
        line: `${name}: ${title} (${severity}, ${url})`,
      })),
  );
  const isHarmful = ({ severity }: { severity: string }) => ['high', 'critical'].includes(severity);
  return {
    outcome: 'asked',
    harmful: known.filter(isHarmful).map(({ line }) => line),
    others: known.filter((each) => !isHarmful(each)).map(({ line }) => line),
  };
}

/** Asks npm, which asks the registry where it has to. */
function npm(...args: string[]): string {
  const options = { cwd: root, encoding: 'utf8', timeout: 60_000, maxBuffer: 64 << 20 } as const;
  return spawnSync('npm', args, options).stdout ?? '';
}

/** A bill of materials in CycloneDX's form, as far as it is looked at here. */
export type Bill = {
  components: readonly { 'bom-ref': string; purl: string }[];
  dependencies: readonly { ref: string; dependsOn?: readonly string[] }[];
};

/**
 * What of everything that is installed runs in production, and which of that the bill lacks. By
 * the lock: npm's own `--omit=dev` leaves out whatever some workspace has for its tests, although
 * others run it, such as fastify and pg.
 */
export function billOfProduction(lock: Lock, bill: Bill): { bill: Bill; lacking: string[] } {
  const entries = Object.entries(lock).map(([path, { name, version, dev = false }]) => ({
    name: `${name ?? folderOf(path)}@${version}`,
    dev,
  }));
  const runs = new Set(entries.filter(({ dev }) => !dev).map(({ name }) => name));
  const known = new Set(entries.map(({ name }) => name));
  const nameOf = (purl: string) => decodeURIComponent(purl.replace(/^pkg:npm\/|\?.*$/g, ''));
  const isLeftOut = (name: string) => known.has(name) && !runs.has(name);
  const components = bill.components.filter(({ purl }) => !isLeftOut(nameOf(purl)));
  const listed = new Set(components.map(({ purl }) => nameOf(purl)));
  const dependencies = bill.dependencies
    .filter(({ ref }) => !isLeftOut(ref))
    .map((each) => ({
      ...each,
      dependsOn: each.dependsOn?.filter((ref) => !isLeftOut(ref)) ?? [],
    }));
  const lacking = [...runs].filter((name) => !listed.has(name));
  return { bill: { ...bill, components, dependencies }, lacking };
}

/** Writes the bill of materials, into a folder that git ignores; gives what it lacks. */
function writeBill(lock: Lock): string[] {
  const text = npm('sbom', '--sbom-format=cyclonedx', '--package-lock-only');
  const { bill, lacking } = billOfProduction(lock, JSON.parse(text) as Bill);
  mkdirSync(`${root}.triplock`, { recursive: true });
  writeFileSync(root + sbomFile, JSON.stringify(bill, null, 2));
  console.log(`${sbomFile}: ${bill.components.length} packages that run in production`);
  return lacking;
}

function askForAdvisories(): Advisories {
  const text = npm('audit', '--json');
  return readAudit(text === '' ? { error: 'no answer' } : (JSON.parse(text) as Audited));
}

/** Prints what was looked at, and everything that is wrong. */
function check(licences: FetchedLicences): boolean {
  const lock = readLock();
  const files = workspaceFiles();
  const images = thirdPartyImages(files);
  const lacking = writeBill(lock);
  const advisories = askForAdvisories();
  const found = {
    [`package-lock.json: ${Object.keys(lock).length} packages by hash`]: [
      lock,
      ...locksOf(files),
    ].flatMap(findLoose),
    [`images: ${images.length} by exact versions`]: findFloating(images),
    [`licences, of ${licences.found.length} that are fetched`]: findUnlicensed(licences),
    'licences: what is known to be fetched is among them': findPassedOver(licences.found),
    [`secrets: looked for in ${files.length} files`]: files.flatMap(({ path, text }) =>
      findSecrets({ path, text: text() }),
    ),
    'what runs in production is in the bill of materials': lacking,
    ...(advisories.outcome === 'asked' && {
      'advisories, high and critical': advisories.harmful,
    }),
  };
  for (const [what, wrong] of Object.entries(found)) {
    console.log(`${what}: ${wrong.length === 0 ? 'none is wrong' : `${wrong.length} wrong`}`);
    for (const line of wrong) console.log(`  ${line}`);
  }
  if (advisories.outcome === 'not-asked') console.log(`ADVISORIES NOT ASKED: ${advisories.why}`);
  else for (const line of advisories.others) console.log(`  to look at: ${line}`);
  return Object.values(found).every((wrong) => wrong.length === 0);
}

const help = `npx node infra/lint/supply-chain.ts [--licences] [--json]

Checks what comes from others: hashes, licences, advisories, and planted secrets. Writes the bill of
materials. Exit code 1 when something is wrong.

  --licences  prints instead all that is ever fetched, with the licence that it comes under
  --json      that table for machines, [{ source, name, version, licence, place }]
`;

if (import.meta.main) {
  const options = { licences: { type: 'boolean' }, json: { type: 'boolean' } } as const;
  const {
    licences: asTable,
    json,
    help: asked,
  } = parseArgs({
    options: { ...options, help: { type: 'boolean' } },
  }).values;
  if (asked) console.log(help);
  else {
    const licences = licencesOfFetched(readLock(), workspaceFiles());
    if (json) console.log(JSON.stringify(licences.found, null, 2));
    else if (asTable) for (const line of renderLicences(licences.found)) console.log(line);
    else {
      const ofOthers = licences.found.filter(({ source }) => source !== 'npm');
      for (const line of renderLicences(ofOthers)) console.log(line);
      for (const line of countLicences(licences.found.filter(({ source }) => source === 'npm'))) {
        console.log(line);
      }
      console.log(`allowed: ${allowedLicences.join(', ')}`);
    }
    const isSound = asTable || json ? findUnlicensed(licences).length === 0 : check(licences);
    process.exitCode = isSound ? 0 : 1;
  }
}
