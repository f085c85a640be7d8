// Loaded before every command. When the launcher is killed with a signal that it cannot pass on,
// the channel between the two closes; the command then ends as if it had been asked to, and cleans
// up.
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
process.channel?.unref();
