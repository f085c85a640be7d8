import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { CommandError } from '@triplock/command';
import { testHome } from '../test/home.ts';
import { findK6, seenInEngine, stepOfGo } from './k6.ts';

/** Who looks for k6, and what they were told. */
function looking() {
  const noted: string[] = [];
  const { signal } = new AbortController();
  return { report: () => undefined, note: (line: string) => noted.push(line), noted, signal };
}

/** Variables of this process for as long as a test takes. */
function settingsOf(t: TestContext, settings: Readonly<Record<string, string>>): void {
  const before = Object.keys(settings).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, settings);
  t.after(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
}

test('where k6 cannot be had the ways to get it are named in one sentence', async (t) => {
  settingsOf(t, { PATH: import.meta.dirname, XDG_CACHE_HOME: join(testHome(t), 'cache') });
  await assert.rejects(findK6(looking()), (error: unknown) => {
    assert.ok(error instanceof CommandError);
    assert.match(error.message, /^k6 is neither on PATH nor an image.*: install k6 1\.0/);
    assert.match(error.message, /Go 1\.24 or newer.*docker pull grafana\/k6:\d/);
    assert.equal(error.message.includes('\n'), false);
    return true;
  });
});

const k6 = "#!/bin/sh\necho 'k6 v1.8.1 (go1.26)'";
const go = `#!/bin/sh
[ "$1 $2" = 'install -v' ] || exit 2
cat > "$GOBIN/k6" <<'END'
${k6}
END
chmod +x "$GOBIN/k6"
`;

test('k6 is built once, which is said before with how long it takes', async (t) => {
  const home = testHome(t);
  mkdirSync(join(home, 'bin'));
  writeFileSync(join(home, 'bin', 'go'), go, { mode: 0o755 });
  settingsOf(t, {
    PATH: `${join(home, 'bin')}:/usr/bin:/bin`,
    XDG_CACHE_HOME: join(home, 'cache'),
  });
  const first = looking();
  const built = await findK6(first);
  assert.equal(built.version, '1.8.1');
  assert.equal(built.from, 'built');
  assert.equal(first.noted.length, 1);
  assert.match(first.noted[0]!, /built from source by .*\/go, once: a minute or two.*on PATH/);

  const second = looking();
  assert.equal((await findK6(second)).version, '1.8.1');
  assert.deepEqual(second.noted, []);
});

test('a build is shown by the steps of Go: what it downloads, how much is compiled, the link', () => {
  const modules = [
    'go: downloading go.k6.io/k6 v1.8.1',
    'go: downloading golang.org/x/net v0.54.0',
  ];
  assert.equal(stepOfGo([]), 'Go asks which modules it takes');
  assert.equal(stepOfGo(modules), 'downloading golang.org/x/net v0.54.0 (2 modules)');
  const packages = [...modules, 'golang.org/x/net/idna', 'golang.org/x/net/http2'];
  assert.equal(stepOfGo(packages), 'compiled 2 packages, golang.org/x/net/http2');
  assert.equal(stepOfGo([...packages, 'go.k6.io/k6']), 'linking it');
});

test('k6 in a container reaches the gateways of this machine, on Docker Desktop by its name for it', () => {
  const [near, far] = ['http://127.0.0.1:18080', 'http://127.0.0.1.example:80/'];
  assert.equal(seenInEngine(near, 'linux'), near);
  assert.equal(seenInEngine(near, 'darwin'), 'http://host.docker.internal:18080');
  assert.equal(seenInEngine('http://localhost', 'win32'), 'http://host.docker.internal');
  assert.equal(seenInEngine(far, 'darwin'), far);
});
