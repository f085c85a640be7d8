// What pages do beyond htmx. Every page works without it: a table can be read, a form be sent.

// A picture that is no longer told says so, instead of standing still as if all were calm.
const stale = 'Not told since a while: the console does not answer. It tries again by itself.';
for (const live of document.querySelectorAll('[data-live]')) {
  const note = document.querySelector(live.dataset.live);
  const tell = (text) => {
    if (note !== null && note.textContent !== text) note.textContent = text;
  };
  live.addEventListener('htmx:sse:error', () => tell(stale));
  // Of a stream that made way for another window's the last word is why; it is not asked for again.
  live.addEventListener('htmx:sse:after:message', ({ detail: { message } }) =>
    tell(message.event === 'superseded' ? message.data : ''),
  );
}

// An act is asked for once: a second click while the first is under way is the same one.
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.method !== 'post') return;
  if (form.dataset.sent !== undefined) event.preventDefault();
  form.dataset.sent = '';
});

// A page that the browser kept is not under way.
window.addEventListener('pageshow', () => {
  for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent;
});
