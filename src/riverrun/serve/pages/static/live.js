// Keeps a page as it is on the server: one stream, parts that changed, nothing while the tab is hidden.

const banner = document.getElementById("connection");
const still = matchMedia("(prefers-reduced-motion: reduce)");
let stream = null;
let lostAt = 0;
let ticking = 0;
let again = 0;

function connect() {
  clearTimeout(again);
  if (stream || document.hidden) return;
  stream = new EventSource(location.pathname + location.search);
  stream.onmessage = (message) => {
    restored();
    apply(JSON.parse(message.data));
  };
  stream.onopen = restored;
  stream.addEventListener("problem", (message) => {
    disconnect();
    lost(JSON.parse(message.data).error);
  });
  stream.onerror = () => {
    // A browser tries again by itself after a broken connection, not after an answer it did not expect.
    if (stream && stream.readyState === EventSource.CLOSED) disconnect();
    lost("");
  };
}

function disconnect() {
  if (stream) stream.close();
  stream = null;
}

function lost(why) {
  if (!lostAt) lostAt = Date.now();
  banner.dataset.why = why;
  show();
  if (!ticking) ticking = setInterval(show, 1000);
  if (!stream) again = setTimeout(connect, 2000);
}

function show() {
  const seconds = Math.round((Date.now() - lostAt) / 1000);
  const why = banner.dataset.why ? `${banner.dataset.why} — ` : "";
  banner.textContent = `${why}connection lost ${seconds} s ago, retrying; what you see is from then`;
  banner.hidden = false;
  document.body.classList.add("stale");
}

function restored() {
  if (!lostAt) return;
  lostAt = 0;
  clearInterval(ticking);
  ticking = 0;
  banner.hidden = true;
  document.body.classList.remove("stale");
}

function apply({ order, parts }) {
  for (const old of document.querySelectorAll("main > [data-live]")) if (!order.includes(old.id)) old.remove();
  let before = document.querySelector("main > h1");
  for (const id of order) {
    let region = document.getElementById(id);
    if (!region) {
      region = document.createElement("div");
      region.id = id;
      region.dataset.live = "";
      before.after(region);
    }
    before = region;
    if (!(id in parts) || region.querySelector("[data-paused]")) continue;
    const made = document.createElement("div");
    made.innerHTML = parts[id];
    children(region, made);
  }
}

// Changes `old` into `made` in place: focus, selection, scroll position and open details stay.
function morph(old, made) {
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName) {
    old.replaceWith(made);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== made.nodeValue) old.nodeValue = made.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!made.hasAttribute(name) && !(name === "open" || name === "class")) old.removeAttribute(name);
  }
  for (const { name, value } of made.attributes) {
    if (old.getAttribute(name) !== value && !(name === "value" && old === document.activeElement)) {
      old.setAttribute(name, value);
    }
  }
  const before = old.dataset?.flash === undefined ? null : old.textContent;
  children(old, made);
  if (before !== null && before !== old.textContent) flash(old);
}

function children(old, made) {
  const known = new Map();
  for (const child of old.children) if (child.id) known.set(child.id, child);
  let at = old.firstChild;
  for (const child of [...made.childNodes]) {
    const same = child.id && known.get(child.id);
    if (same) {
      if (same !== at) old.insertBefore(same, at);
      else at = at.nextSibling;
      known.delete(child.id);
      morph(same, child);
    } else if (at && !(child.id || at.id) && at.nodeName === child.nodeName) {
      const next = at.nextSibling;
      morph(at, child);
      at = next;
    } else {
      old.insertBefore(child, at);
      if (child.dataset?.fresh !== undefined) flash(child);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function flash(element) {
  if (still.matches) return;
  element.classList.remove("flash");
  void element.offsetWidth;
  element.classList.add("flash");
  element.addEventListener("animationend", () => element.classList.remove("flash"), { once: true });
}

// A pause button stops the part it is in; the rest of the page goes on.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-pause]");
  if (!button) return;
  const paused = button.toggleAttribute("data-paused");
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Go on" : "Pause";
});

document.addEventListener("change", (event) => {
  if (event.target.matches("form.choice select")) event.target.form.submit();
});

// What is new is on the right of a wide picture.
for (const picture of document.querySelectorAll("[data-end]")) {
  picture.scrollLeft = picture.scrollWidth - picture.clientWidth - Number(picture.dataset.end);
}

// What only makes sense with a script is shown by the script.
document.documentElement.classList.add("scripted");

document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);
connect();
