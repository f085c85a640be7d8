/**
 * Node's HTTP, for what runs in a service. To import it from `node:http` has all that it exports
 * looked at, and behind one of those is the whole of `fetch`, which is loaded then: most of what
 * HTTP takes of a process, in memory and as it starts, for what no service uses.
 */
export const http = process.getBuiltinModule('node:http');
