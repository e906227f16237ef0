"use strict";
// Refreshes the page from its own URL, writes times in the viewer's zone, knows keys, and reads plots out. Every page is whole without it.
(() => {
  const fast = 2000, slow = 5000; // milliseconds between refreshes: while the page changes, and while it does not
  const root = document.documentElement;
  const policy = window.trustedTypes ? window.trustedTypes.createPolicy("keyfold", { createHTML: (text) => text }) : { createHTML: (text) => text };
  let tag = null, timer = 0, last = new Date(), pending = false;
  root.classList.add("scripted");

  // Times.

  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });
  function localize(within) {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const text = (Math.abs(Date.now() - at) < 12 * 3600 * 1000 ? clock : day).format(at);
      if (time.textContent !== text) time.textContent = text;
      time.title = whole.format(at) + " (" + time.dateTime + ")";
    }
  }

  // Countdowns: from what was left when the page was made, by this machine's clock.

  let counted = { due: "", until: 0, asked: false };
  function countdown() {
    const span = document.querySelector("[data-left]");
    if (!span) return;
    if (span.dataset.due !== counted.due) counted = { due: span.dataset.due, until: Date.now() + 1000 * Number(span.dataset.left), asked: false };
    const text = Math.max(0, Math.ceil((counted.until - Date.now()) / 1000)) + " s";
    if (span.textContent !== text) span.textContent = text;
    if (Date.now() > counted.until && !counted.asked) {
      counted.asked = true;
      setTimeout(refresh, 500);
    }
  }

  // Places: what comes to another one is seen to move.

  const places = () => new Map([...document.querySelectorAll("[data-place]")].map((one) => [one.id, one.offsetTop]));
  function glide(before) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [id, top] of before) {
      const one = document.getElementById(id);
      if (one && one.offsetTop !== top) one.animate([{ transform: `translateY(${top - one.offsetTop}px)` }, { transform: "none" }], 150);
    }
  }

  // Refreshing: the old elements become the new ones where they differ, so that focus, selection and open details stay.

  function morph(old, next) {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || (old.id || "") !== (next.id || "")) {
      old.replaceWith(next);
      return;
    }
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== next.data) {
        old.data = next.data;
        fade(old.parentElement);
      }
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) return;
    if (old.nodeName === "TIME" && old.dateTime === next.dateTime) return;
    if (old.isEqualNode(next)) return;
    attributes(old, next);
    if (old.nodeName === "INPUT" || old.nodeName === "SELECT" || old.nodeName === "TEXTAREA") return; // the viewer's
    children(old, next);
  }

  function attributes(old, next) {
    const kept = old.nodeName === "DETAILS" ? "open" : "";
    for (const { name } of [...old.attributes]) {
      if (name !== kept && !next.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (name !== kept && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  }

  function children(old, next) {
    const named = new Map();
    for (const child of old.children) if (child.id) named.set(child.id, child);
    let at = old.firstChild;
    for (const child of [...next.childNodes]) {
      const known = child.id ? named.get(child.id) : null;
      if (known && known !== at) {
        old.insertBefore(known, at);
        at = known;
      } else if (!at || (!known && at.id && named.has(at.id) && (child.id || "") !== at.id)) {
        old.insertBefore(child, at);
        continue;
      }
      const following = at.nextSibling;
      morph(at, child);
      at = following;
    }
    while (at) {
      const following = at.nextSibling;
      at.remove();
      at = following;
    }
  }

  function fade(element) {
    if (!element || !element.closest(".value, td.n")) return;
    element.classList.remove("changed");
    void element.offsetWidth;
    element.classList.add("changed");
    element.addEventListener("animationend", () => element.classList.remove("changed"), { once: true });
  }

  async function refresh() {
    if (pending || document.hidden) return;
    pending = true;
    let wait = slow;
    try {
      const answer = await fetch(location.href.split("#")[0], {
        headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(10000),
      });
      if (answer.status === 401) return location.reload();
      if (answer.status !== 200 && answer.status !== 304) throw new Error(answer.statusText || String(answer.status));
      if (answer.status === 200) {
        tag = answer.headers.get("ETag");
        show(new DOMParser().parseFromString(policy.createHTML(await answer.text()), "text/html"));
        wait = fast;
      }
      looked(answer.headers.get("Keyfold-Looked"));
      found();
    } catch (error) {
      lost(error);
      wait = fast;
    } finally {
      pending = false;
      clearTimeout(timer);
      timer = setTimeout(refresh, wait);
    }
  }

  function show(page) {
    const before = places();
    document.title = page.title;
    for (const next of page.querySelectorAll("[data-live][id]")) {
      const old = document.getElementById(next.id);
      localize(next);
      if (old) morph(old, next);
    }
    countdown();
    glide(before);
  }

  function looked(at) {
    const time = document.getElementById("looked");
    if (!time || !at) return;
    time.dateTime = at;
    localize(time.parentElement);
  }

  function lost(error) {
    const bar = document.getElementById("lost");
    bar.textContent = "not refreshed since " + clock.format(last) + ": " + error.message;
    bar.hidden = false;
    root.classList.add("stale");
  }

  function found() {
    last = new Date();
    document.getElementById("lost").hidden = true;
    root.classList.remove("stale");
  }

  // Keys.

  let led = 0; // when g was pressed
  function key(event) {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.nodeName);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (Date.now() - led < 1500) {
      led = 0;
      const link = [...document.querySelectorAll("nav [data-key]")].find((one) => one.dataset.key === event.key);
      if (link) link.click();
      return;
    }
    if (event.key === "g") led = Date.now();
    if (event.key === "?") document.getElementById("keys")?.showModal();
    if (event.key === "/") {
      const field = document.getElementById("search");
      if (!field) return;
      event.preventDefault();
      field.focus();
      field.select();
    }
  }

  // Plots: the pointer's time and values stand in the caption.

  function read(event) {
    const plot = event.target.closest?.("svg.plot");
    for (const old of document.querySelectorAll(".read")) if (old.ownerSVGElement !== plot) old.remove();
    for (const out of document.querySelectorAll("output.values")) if (out.previousElementSibling?.closest("figure") !== plot?.closest("figure")) out.remove();
    if (!plot) return;
    const times = plot.dataset.times.split(" ").map(Number);
    const lines = [...plot.querySelectorAll("g[data-values]")].map((one) => [one.dataset.name, one.dataset.values.split(" ")]);
    const { x, width } = plot.getBoundingClientRect();
    const axis = Number(plot.dataset.axis), whole = plot.viewBox.baseVal.width;
    const from = Number(plot.dataset.from), until = Number(plot.dataset.until);
    const at = from + (until - from) * (((event.clientX - x) / width) * whole - axis) / (whole - axis);
    let best = 0;
    times.forEach((_, i) => { if (Math.abs(stamp(times, i) - at) < Math.abs(stamp(times, best) - at)) best = i; });
    const where = axis + (whole - axis) * (stamp(times, best) - from) / (until - from);
    let rule = plot.querySelector(".read");
    if (!rule) {
      rule = document.createElementNS(plot.namespaceURI, "line");
      rule.setAttribute("class", "read");
      rule.setAttribute("y1", "6");
      rule.setAttribute("y2", "116");
      plot.append(rule);
    }
    rule.setAttribute("x1", where);
    rule.setAttribute("x2", where);
    const caption = plot.closest("figure").querySelector("figcaption");
    let out = caption.parentElement.querySelector("output.values");
    if (!out) {
      out = document.createElement("output");
      out.className = "values";
      caption.after(out);
    }
    out.textContent = (until - from > 86400 ? day : clock).format(new Date(stamp(times, best) * 1000)) + "  " + lines.map(([name, values]) => name + " " + values[best] + (plot.dataset.unit || "")).join("  ");
  }
  const stamp = (times, i) => (i === 0 ? times[0] : times[0] + times[i]);

  localize(document);
  document.addEventListener("keydown", key);
  document.addEventListener("pointermove", read);
  document.addEventListener("change", (event) => { if (event.target.form?.matches(".ask")) event.target.form.requestSubmit(); });
  if (document.querySelector(".person")) setInterval(countdown, 250);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  if (document.querySelector("[data-live]")) timer = setTimeout(refresh, fast);
})();
