import { builtinModules } from 'node:module';
import { posix } from 'node:path';
import { judgeImports, type Rule, type RuleContext } from './rule.ts';
import { packageOf, projectAt, workspaceAround, type Project } from './projects.ts';

const inner = ['domain', 'contract', 'kit'];
const house = [...inner, 'adapter', 'store', 'wiring', 'inspect'];

/** Who may import whom, by the `kind:` tag of each package.json: ADR 11 says why. */
const arrows: Readonly<Record<string, readonly string[]>> = {
  domain: [],
  contract: ['domain'],
  kit: ['kit'],
  adapter: inner,
  // One more store, or provider, behind an adapter's port, or one before another, as a cache is.
  store: [...inner, 'adapter', 'store'],
  // Also the lists of stores and providers, which open those that the settings name.
  wiring: [...inner, 'adapter', 'store'],
  // What commands, pages and proofs know alike of a system.
  inspect: [...inner, 'adapter', 'store', 'wiring'],
  testing: [...inner, 'store'],
  service: house,
  // The operators' commands, which the launcher calls for the system on this machine.
  operator: house,
  // The launcher reads what each service declares of itself.
  infra: [...house, 'testing', 'operator', 'service', 'infra'],
  demo: [...house, 'testing', 'infra'],
  // A provider proves its own promises with what all of them share.
  e2e: [...house, 'testing', 'infra', 'demo', 'e2e'],
  'load-tests': [...house, 'testing', 'infra', 'demo'],
};

/** These take the test equipment into their tests, and only there. */
const testedOnRealStores = ['adapter', 'store', 'wiring', 'inspect', 'service', 'operator'];

/** Where the clients of stores and brokers may be imported. */
export const driverHomes = [
  'libs/{claims,ledger,inbox,partners,providers,transport,postgres,testing,stores,once}/**',
  '{infra,demo,e2e,load-tests}/**',
];

/** Where `process.env` may be read: settings are validated once, at the boot of a process. */
export const environmentHomes = [
  '**/config.ts',
  'libs/testing/**',
  '{infra,demo,e2e,load-tests}/**',
];

/**
 * Conformance suites are tests that several stores' test files call. What several test files of one
 * project share is in its folder `test`.
 */
export const testFiles = [
  '**/*.test.ts',
  '**/*.conformance.ts',
  '**/*.testing.ts',
  '**/test/**/*.ts',
];

/**
 * The rules about imports that need to know every project. With `{ inTests: true }` as its option a
 * rule judges a file of tests.
 */
export const boundaryRules: Readonly<Record<string, Rule>> = {
  'may-import': judgeWithin(({ project, target, inTests }) => {
    if (target === undefined || target === project) return undefined;
    const allowed = arrows[project.kind ?? ''];
    if (allowed === undefined) return `${project.folder}/package.json has no kind: of ADR 11.`;
    const withTesting = inTests && testedOnRealStores.includes(project.kind!);
    if ([...allowed, ...(withTesting ? ['testing'] : [])].includes(target.kind!)) return undefined;
    const place = inTests ? 'a test of ' : '';
    return `${place}kind:${project.kind} may not import kind:${target.kind} (ADR 11).`;
  }),
  'one-way': judgeWithin(({ project, target, reaches }) => {
    if (target === undefined || target === project || !reaches(target, project)) return undefined;
    return `${target.name} depends on ${project.name}: two projects do not import each other.`;
  }),
  'by-name': judgeWithin(({ project, target, specifier, pathsProject }) => {
    if (target === project) return `Within ${project.name} imports are relative.`;
    if (pathsProject === undefined || pathsProject === project) return undefined;
    return `Another project is imported by its name, ${pathsProject.name}, not by '${specifier}'.`;
  }),
  'declared-packages': judgeWithin(({ project, target, npmPackage, declaredByRoot }) => {
    if (target !== undefined || npmPackage === undefined) return undefined;
    const names = [npmPackage, `@types/${npmPackage.replace(/^@(.*)\//, '$1__')}`];
    if (names.some((name) => project.declared.has(name) || declaredByRoot.has(name))) {
      return undefined;
    }
    return `${project.folder}/package.json does not declare ${npmPackage}.`;
  }),
  // Whoever forks the domain takes no package along: it is arithmetic and rules.
  'bare-domain': judgeWithin(({ project, target, npmPackage, inTests }) => {
    if (project.kind !== 'domain' || target !== undefined) return undefined;
    if (npmPackage === undefined || (inTests && npmPackage === 'fast-check')) return undefined;
    return `The domain takes no package along, so not ${npmPackage}.`;
  }),
};

/** An import, and where it leads. */
type Import = {
  specifier: string;
  /** Whose file it stands in. */
  project: Project;
  inTests: boolean;
  /** The project that it names. */
  target: Project | undefined;
  /** The project that it leads into as a path. */
  pathsProject: Project | undefined;
  /** The package that it names, unless it is built into Node; maybe a project's. */
  npmPackage: string | undefined;
  declaredByRoot: ReadonlySet<string>;
  reaches: (from: Project, to: Project) => boolean;
};

function judgeWithin(problemOf: (one: Import) => string | undefined): Rule {
  const rule = judgeImports((context) => {
    const resolve = importsFrom(context);
    return (specifier) => {
      const one = resolve?.(specifier);
      return one && problemOf(one);
    };
  });
  const option = { type: 'object', properties: { inTests: { type: 'boolean' } } };
  return { meta: { schema: [option] }, ...rule };
}

/** Resolves the imports of a file; `undefined` for a file that is of no project. */
function importsFrom(context: RuleContext): ((specifier: string) => Import) | undefined {
  const workspace = workspaceAround(context.filename);
  const path = workspace?.pathOf(context.filename);
  const project = path === undefined ? undefined : projectAt(workspace!, path);
  if (workspace === undefined || path === undefined || project === undefined) return undefined;
  const [options] = context.options as readonly [{ inTests?: boolean }?];
  const { byName, declared: declaredByRoot, reaches } = workspace;
  return (specifier) => {
    const isPath = /^[./]/.test(specifier);
    const ofNode = specifier.startsWith('node:') || builtinModules.includes(specifier);
    return {
      specifier,
      project,
      inTests: options?.inTests === true,
      target: isPath ? undefined : byName.get(packageOf(specifier)),
      pathsProject: isPath
        ? projectAt(workspace, posix.join(posix.dirname(path), specifier))
        : undefined,
      npmPackage: isPath || ofNode ? undefined : packageOf(specifier),
      declaredByRoot,
      reaches,
    };
  };
}
