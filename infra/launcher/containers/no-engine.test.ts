import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { aHome, runScript } from '../a-home.ts';
import { homeAt } from '../home.ts';
import { readState } from '../state.ts';

/** Nobody listens there. */
const noEngine = { DOCKER_HOST: 'tcp://127.0.0.1:1' };

test('without an engine containers are refused in one sentence, and the home is free for processes', async (t) => {
  const home = aHome(t);
  const up = ['up', '--parts', 'docker', '--home', home];
  const { code, stderr } = await runScript(up, noEngine);
  const sentence = 'no container engine answers: start Docker, or take --parts native';
  assert.deepEqual({ code, stderr }, { code: 1, stderr: `triplock up: ${sentence}\n` });
  assert.equal(readState(homeAt(home)).parts, undefined);
  assert.equal(existsSync(homeAt(home).endpoints), false);
});
