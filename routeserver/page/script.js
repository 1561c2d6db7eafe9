// Copies commands, and keeps the page current: the event stream sends revisions, and the content is fetched after each
// new one. Without this script everything but that works.
"use strict";
(() => {
  const body = document.body, live = document.getElementById("live");
  const events = body.dataset.events;
  let revision = body.dataset.revision, tag = body.dataset.tag;
  let source = null, fetching = false, again = false, delay = 1000, ended = false;
  // When the content is fetched without an event, and the stream can be opened again.
  let due = Date.now() + 1000 * (document.getElementById("main")?.dataset.every || 30), reopen = 0;
  document.documentElement.classList.add("js");

  const show = text => { if (live && live.textContent !== text) live.textContent = text; };

  document.addEventListener("click", async event => {
    const button = event.target.closest && event.target.closest("[data-copy]");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      show("Copied.");
    } catch {
      getSelection().selectAllChildren(code);
      show("The browser does not allow to copy. The command is selected: copy it with the keyboard.");
    }
  });

  const keyOf = node => node.nodeType === 1 ? node.id || node.dataset.key || "" : "";
  const alike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  // morph makes an element like another one, and keeps the nodes that both have: with them focus, selection, scroll
  // positions and typed text stay. Whether details are open is the person's choice.
  function morph(have, want) {
    for (const { name } of [...have.attributes])
      if (!want.hasAttribute(name) && name !== "open") have.removeAttribute(name);
    for (const { name, value } of want.attributes)
      if (have.getAttribute(name) !== value && name !== "open") have.setAttribute(name, value);
    const wanted = new Set([...want.children].map(keyOf)), keyed = new Map();
    for (const child of [...have.children]) {
      const key = keyOf(child);
      if (key && !wanted.has(key)) child.remove();
      else if (key) keyed.set(key, child);
    }
    let at = have.firstChild;
    for (const next of [...want.childNodes]) {
      const known = keyed.get(keyOf(next));
      if (known && known.nodeName === next.nodeName && known !== at) {
        have.insertBefore(known, at);
        at = known;
      }
      if (!at || !alike(at, next)) {
        have.insertBefore(next, at);
        continue;
      }
      if (at.nodeType !== 1) {
        if (at.nodeValue !== next.nodeValue) at.nodeValue = next.nodeValue;
      } else if (!at.isEqualNode(next)) morph(at, next);
      at = at.nextSibling;
    }
    while (at) {
      const after = at.nextSibling;
      at.remove();
      at = after;
    }
  }

  function replace(text) {
    const next = new DOMParser().parseFromString(text, "text/html").getElementById("main");
    if (!next) return;
    const focus = document.activeElement, id = focus && focus.id;
    document.title = next.dataset.title;
    morph(document.getElementById("main"), next);
    if (id && document.activeElement !== focus) document.getElementById(id)?.focus({ preventScroll: true });
  }

  async function refresh() {
    if (ended) return;
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    do {
      again = false;
      try {
        const answer = await fetch(location.href, {
          headers: { "Switchyard-Fragment": "1", "If-None-Match": tag }, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(15000),
        });
        if (answer.status === 401) end();
        else if (answer.headers.has("Switchyard-Fragment")) {
          tag = answer.headers.get("ETag") || "";
          replace(await answer.text());
        } else if (answer.status !== 304) throw new Error("status " + answer.status);
        due = Date.now() + 1000 * (document.getElementById("main").dataset.every || 30);
      } catch {
        due = Date.now() + 2000 + 2000 * Math.random();
      }
    } while (again && !ended);
    fetching = false;
  }

  function end() {
    ended = true;
    close();
    show("");
    document.getElementById("ended").hidden = false;
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  // open opens the stream while the page is visible. Browsers connect again on their own, unless the answer was a
  // refusal, such as one of too many streams.
  function open() {
    if (source || ended || document.hidden) return;
    source = new EventSource(events);
    source.onmessage = event => {
      delay = 1000;
      show("Live: changes are shown as they happen.");
      if (event.data === revision) return;
      revision = event.data;
      refresh();
    };
    source.onerror = () => {
      show("The connection is interrupted; the page connects again on its own.");
      if (source.readyState !== EventSource.CLOSED) return;
      close();
      refresh();
      reopen = Date.now() + delay * (0.5 + Math.random());
      delay = Math.min(2 * delay, 30000);
    };
  }

  if (!events) return;
  open();
  addEventListener("pagehide", close);
  addEventListener("pageshow", event => event.persisted && (open(), refresh()));
  document.addEventListener("visibilitychange", () => document.hidden ? close() : (open(), refresh()));
  setInterval(() => {
    if (document.hidden || fetching) return;
    if (Date.now() >= due) refresh();
    if (Date.now() >= reopen) open();
  }, 500);
})();
