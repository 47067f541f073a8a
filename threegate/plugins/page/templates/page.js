"use strict";
// Looks for changes now and then. A list is renewed in place; the text of a request is never changed under a reader's eyes.
(() => {
  const html = window.trustedTypes
    ? trustedTypes.createPolicy("threegate", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const every = 5000;
  const status = document.getElementById("fresh");
  const pause = document.getElementById("pause");
  let live = document.getElementById("live");
  const kind = live ? live.dataset.live : "";
  let tag = "";
  let paused = false;
  let said = "";
  let source = live ? live.innerHTML : "";

  const ages = () => {
    for (const time of document.querySelectorAll("time.age")) {
      const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
      const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].find(([, size]) => seconds >= 2 * size || size === 1);
      const text = `${Math.floor(seconds / size)} ${unit}`;
      if (time.textContent !== text) {
        time.title ||= time.textContent;
        time.textContent = text;
      }
    }
  };

  const say = (text) => {
    if (text !== said) status.textContent = said = text;
  };
  const usual = "Looks for changes every 5 seconds.";
  const fine = () => {
    if (!said.startsWith("Renewed")) say(usual);
  };

  // The closed fold that hides a place, which then has neither rows on the screen nor the focus.
  const hider = (place) => place.closest("details:not([open]) > :not(summary)")?.parentElement;
  const anchor = (next) => {
    for (const row of live.querySelectorAll("li[id]")) {
      const top = hider(row) ? -1 : row.getBoundingClientRect().top;
      const again = top >= 0 && next.querySelector(`#${row.id}`);
      if (again && !hider(again)) return [again, top];
    }
    return [next, live.getBoundingClientRect().top];
  };
  const renew = (other) => {
    const focused = live.contains(document.activeElement) ? document.activeElement.id : "";
    const next = document.adoptNode(other.getElementById("live"));
    source = next.innerHTML;
    for (const fold of live.querySelectorAll("details[open][id]")) {
      const again = next.querySelector(`#${fold.id}`);
      if (again) again.open = true;
    }
    const again = focused && next.querySelector(`#${focused}`);
    // A draft that has the focus may now be in the row of those alike, and what ran among what has ended.
    for (let fold = again && hider(again); fold; fold = hider(again)) fold.open = true;
    const [row, top] = anchor(next);
    live.replaceWith(next);
    live = next;
    ages();
    for (const count of other.querySelectorAll("nav .count")) {
      const here = document.getElementById(count.id);
      if (here) here.textContent = count.textContent;
    }
    document.title = other.title;
    window.scrollBy(0, row.getBoundingClientRect().top - top);
    if (again) again.focus({ preventScroll: true });
  };
  const notice = () => {
    const place = document.getElementById("changed");
    if (!place || !place.hidden) return;
    const link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = "Show it as it is now";
    place.append("This changed since you opened it. ", link);
    place.hidden = false;
  };
  const look = async () => {
    if (paused || document.hidden) return;
    let answer;
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      answer = await fetch(location.pathname + location.search, { headers, cache: "no-store", redirect: "error" });
    } catch {
      return say("The server does not answer; this is how it was before.");
    }
    if (answer.status === 304) return fine();
    if (answer.status === 404) return kind === "notice" ? notice() : say("It no longer exists.");
    if (!answer.ok) return say("This is not shown any more; type: threegate serve page");
    const text = await answer.text();
    if (kind === "list" && !getSelection().isCollapsed) return;
    tag = answer.headers.get("ETag") || "";
    const other = new DOMParser().parseFromString(html.createHTML(text), "text/html");
    const output = other.getElementById("output");
    if (output) document.getElementById("output").replaceWith(document.adoptNode(output));
    const same = other.getElementById("live") && other.getElementById("live").innerHTML === source;
    if (same) return fine();
    if (kind === "list") {
      renew(other);
      say(`Renewed at ${new Date().toTimeString().slice(0, 8)}.`);
    } else notice();
  };

  ages();
  setInterval(ages, 1000);
  if (live) {
    say(usual);
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      say(paused ? "Paused." : usual);
    });
    setInterval(look, every);
    document.addEventListener("visibilitychange", look);
  }
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
        say("Copied.");
      } catch {
        say("Not copied: mark the line and copy it yourself.");
      }
    });
  }
})();
