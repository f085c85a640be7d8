import { port, readSettings, SettingsError, text } from '@triplock/runtime';
import { openJobs } from './jobs.ts';
import { serveAgent } from './serve.ts';
import { watchHome } from './watch.ts';

/** The settings of the agent, which the launcher gives it. */
const settings = {
  AGENT_PORT: port,
  /** What every request has to show. */
  AGENT_TOKEN: text,
  /** The instance that it breaks, and no other. */
  AGENT_HOME: text,
};

try {
  const { AGENT_PORT, AGENT_TOKEN: token, AGENT_HOME: home } = readSettings(process.env, settings);
  const jobs = openJobs(home);
  const agent = await serveAgent({ jobs, home, token }, AGENT_PORT);
  console.log(`agent listens on ${agent.url}`);
  const ends = new AbortController();
  void watchHome({ home, jobs }, ends.signal);
  let isStopping = false;
  const stop = () => {
    if (isStopping) return;
    isStopping = true;
    // Nothing more is taken, nor started again, before what is under way is broken off.
    ends.abort();
    agent.close();
    void jobs.end().then(() => process.exit(0));
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
} catch (error) {
  console.error(`agent: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(error instanceof SettingsError ? 2 : 1);
}
