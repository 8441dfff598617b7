// The judge's page: shows pairs, takes answers, and keeps every answer until the server has it.
const MIN_SHOWN = 250; // milliseconds before which an answer is taken for a slip
const TIMEOUT = 10000, LONGEST_WAIT = 15000, POLL = 4000;

const $ = (id) => document.getElementById(id);
const token = { value: location.hash.slice(1) };
let study = null; // what the server said of the study
let queue = []; // questions, the first one is shown
let outbox = []; // votes and undos that the server does not have yet, in order
let sent = new Map(); // the questions of votes of this visit, by id of the vote, for undo
let last = ""; // id of the last vote
let votes = 0;
let shownAt = 0, hiddenFor = 0, hiddenSince = 0;
let sending = false, pause = 1000, timer = 0;

const storageKey = () => `crowdsift:${token.value.slice(0, 16)}`;
function keep() {
  try { localStorage.setItem(storageKey(), JSON.stringify(outbox)); } catch { /* private mode: memory only */ }
}
function remembered() {
  try { return JSON.parse(localStorage.getItem(storageKey()) || "[]"); } catch { return []; }
}

class Refused extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

async function call(path, body) {
  const options = { headers: { Authorization: `Bearer ${token.value}` }, signal: AbortSignal.timeout(TIMEOUT) };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options); // throws if there is no network
  const found = await response.json().catch(() => ({}));
  if (response.status >= 500 || response.status === 429) throw new Error("busy");
  if (!response.ok) throw new Refused(found.error || "This did not work.", response.status);
  return found;
}

function show(name) {
  for (const each of ["join", "consent", "vote", "over"]) $(each).hidden = each !== name;
}
function say(text) { $("said").textContent = text; }

const isShort = (content) => content.text.length < 60 && !content.image;
function fill(card, content, short) {
  const body = card.querySelector(".body");
  body.replaceChildren();
  if (content.image) {
    const image = document.createElement("img");
    image.src = content.image;
    image.alt = content.text ? "" : `Picture ${card.id === "left" ? "A" : "B"}`;
    body.append(image);
  }
  if (content.text) {
    const text = document.createElement("div");
    text.className = short ? "plain short" : "plain";
    text.textContent = content.text;
    body.append(text);
  }
  if (content.html) { // sanitised by the server; the page's policy lets no script in it run
    const rich = document.createElement("div");
    rich.className = "rich";
    rich.innerHTML = content.html;
    body.append(rich);
  }
}

function showQuestion(spoken) {
  const question = queue[0];
  if (!question) { showEnd(spoken); return; }
  show("vote");
  $("prompt").hidden = !question.prompt;
  $("prompt-text").textContent = question.prompt;
  const short = isShort(question.left) && isShort(question.right); // no item stands out by its type
  fill($("left"), question.left, short);
  fill($("right"), question.right, short);
  $("footer").hidden = false;
  shownAt = performance.now();
  hiddenFor = 0;
  update();
  for (const next of queue.slice(1))
    for (const side of [next.left, next.right]) if (side.image) new Image().src = side.image;
  if (spoken !== undefined) {
    say(`${spoken} Next pair: A and B.`);
    $("pair").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  }
}

const ENDS = {
  settled: ["That is enough: thank you!", "The answer is settled, and no more votes are needed."],
  spent: ["That is enough: thank you!", "All votes of this study have been given."],
  closed: ["This study is closed.", "Thank you for your votes."],
  paused: ["A short break", "This study is paused. The page goes on by itself when it continues."],
  open: ["You have seen everything: thank you!", "There is no further pair for you."],
};
function showEnd(spoken) {
  $("footer").hidden = false;
  const waiting = outbox.length > 0;
  const [head, text] = waiting ? ["One moment …", "Your votes are being sent."] : ENDS[study.state] || ENDS.open;
  show("over");
  $("over-head").textContent = head;
  $("over-text").textContent = text;
  update();
  if (spoken !== undefined) { say(`${spoken} ${head} ${text}`); $("over-head").focus(); }
}

function update() {
  const total = study.of;
  $("progress").hidden = false;
  $("count").textContent = total ? `${votes} of ${total}` : `${votes} ${votes === 1 ? "vote" : "votes"}`;
  $("bar").hidden = !total;
  if (total) { $("bar").max = total; $("bar").value = votes; }
  $("undo").disabled = !last;
  $("undo-over").hidden = !last || study.state === "closed";
  const offline = outbox.length > 0 && pause > 1000;
  $("network").hidden = !offline;
  if (offline) {
    const many = outbox.length === 1 ? "1 vote waits" : `${outbox.length} votes wait`;
    $("network").textContent = `No connection. ${many} on this device and will be sent.`;
  }
}

function answer(kind) {
  const question = queue[0];
  if ($("vote").hidden || !question || document.querySelector("dialog[open]")) return;
  const elapsed = performance.now() - shownAt;
  if (elapsed < MIN_SHOWN) return;
  const id = crypto.randomUUID ? crypto.randomUUID() : randomId();
  const milliseconds = Math.round(elapsed - hiddenFor);
  queue.shift();
  outbox.push({ id, question: question.id, answer: kind, milliseconds });
  keep();
  sent.set(id, question);
  last = id;
  votes += 1;
  showQuestion({ left: "A chosen.", right: "B chosen.", tie: "Tie.", skip: "Skipped." }[kind]);
  send();
}
function randomId() { // crypto.randomUUID needs HTTPS or this machine
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

function undo() {
  if (!last) return;
  const id = last, question = sent.get(id);
  const place = outbox.findIndex((each) => each.id === id);
  if (place > 0 || (place === 0 && !sending)) outbox.splice(place, 1);
  else outbox.push({ undo: id, again: !question });
  keep();
  sent.delete(id);
  last = [...sent.keys()].at(-1) || "";
  votes -= 1;
  if (question) queue.unshift(question);
  if (question) showQuestion("The last vote is undone.");
  else update();
  send();
}

// Sends what waits, one after the other. The server knows each vote by its id and stores it once.
async function send() {
  if (sending) return;
  sending = true;
  clearTimeout(timer);
  try {
    while (outbox.length) {
      const first = outbox[0];
      const found = await call(...(first.undo
        ? ["/api/undo", { id: first.undo }]
        : ["/api/vote", { ...first, held: queue.map((each) => each.id) }])).catch((error) => {
        if (!(error instanceof Refused)) throw error;
        if ([401, 403, 410].includes(error.status)) { stop(error); throw error; }
        return { refused: error.message };
      });
      outbox.shift();
      keep();
      pause = 1000;
      take(found, first);
    }
    if (study) update();
  } catch (error) {
    if (!(error instanceof Refused)) {
      pause = Math.min(pause * 2, LONGEST_WAIT);
      timer = setTimeout(send, pause);
      if (study) update();
    }
  } finally {
    sending = false;
  }
}

function take(found, job) {
  if (!study) return;
  if (found.refused) { say(found.refused); return; }
  if (found.state) study.state = found.state;
  if (!outbox.length && found.votes !== undefined) { votes = found.votes; last = found.last || ""; }
  const known = new Set(queue.map((each) => each.id));
  const more = (found.questions || []).filter((each) => !known.has(each.id));
  const empty = queue.length === 0;
  queue.push(...more);
  if (job.again && found.question) { // voted before this visit: the server knows what was asked
    queue.unshift(found.question);
    showQuestion("The last vote is undone.");
  } else if (empty) showQuestion(queue.length ? "" : undefined);
  else update();
}

function stop(error) {
  queue = [];
  show("over");
  $("title").textContent = "Vote";
  $("progress").hidden = true;
  $("over-head").textContent = error.status === 410 ? "You have withdrawn." : "This link does not work.";
  $("over-text").textContent = `${error.message[0].toUpperCase()}${error.message.slice(1)}.`.replace("..", ".");
  $("undo-over").hidden = true;
  $("footer").hidden = true;
  $("network").hidden = true;
}

async function begin() {
  clearTimeout(begin.timer);
  outbox = remembered();
  if (outbox.length) await send();
  try {
    study = await call("/api/judge");
  } catch (error) {
    if (error instanceof Refused) { stop(error); return; }
    $("network").hidden = false;
    $("network").textContent = "No connection. This page tries again.";
    begin.timer = setTimeout(begin, 2000);
    return;
  }
  $("network").hidden = true;
  $("title").textContent = study.title;
  document.title = study.title;
  if (study.join) { show("join"); $("name").focus(); return; }
  votes = study.votes + outbox.length;
  last = study.last;
  queue = study.questions;
  $("who").textContent = study.name;
  $("tie").hidden = $("tie-key").hidden = !study.ties;
  $("skip").hidden = $("skip-key").hidden = !study.skip;
  if (!study.consented) {
    show("consent");
    $("consent-text").innerHTML = study.consent; // sanitised by the server
    return;
  }
  showQuestion();
}

$("join-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const found = await call("/api/join", { name: $("name").value });
    token.value = found.token;
    history.replaceState(null, "", `#${found.token}`);
    await begin();
    $("pair").focus({ preventScroll: true });
  } catch (error) {
    $("join-error").textContent = error instanceof Refused ? error.message : "No connection; please try again.";
  }
});
$("agree").addEventListener("click", async () => {
  await call("/api/consent", {}).catch(() => {});
  begin();
});
for (const button of document.querySelectorAll("[data-answer]"))
  button.addEventListener("click", () => answer(button.dataset.answer));
$("undo").addEventListener("click", undo);
$("undo-over").addEventListener("click", undo);
$("withdraw").addEventListener("click", () => $("sure").showModal());
$("sure-no").addEventListener("click", () => $("sure").close());
$("sure-yes").addEventListener("click", async () => {
  $("sure").close();
  outbox = [];
  keep();
  try {
    await call("/api/withdraw", {});
    stop(Object.assign(new Refused("All your votes are deleted. Thank you for your time.", 410)));
    $("over-head").focus();
  } catch {
    $("network").hidden = false;
    $("network").textContent = "No connection. Your votes are not deleted yet; please try again.";
  }
});
addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, dialog")) return;
  const kind = { ArrowLeft: "left", ArrowRight: "right", ArrowDown: "tie", s: "skip", S: "skip" }[event.key];
  if (event.key === "u" || event.key === "U") undo();
  else if (!kind || $("vote").hidden || (kind === "tie" && !study.ties) || (kind === "skip" && !study.skip)) return;
  else answer(kind);
  event.preventDefault();
});
document.addEventListener("visibilitychange", () => { // time in another tab is not time taken
  if (document.hidden) hiddenSince = performance.now();
  else if (hiddenSince) { hiddenFor += performance.now() - Math.max(hiddenSince, shownAt); hiddenSince = 0; }
});
addEventListener("online", () => { pause = 1000; send(); });
addEventListener("hashchange", () => { token.value = location.hash.slice(1); begin(); });
setInterval(() => { // a pause ends, or new pairs come
  if (study && !study.join && !$("over").hidden && !outbox.length && ["paused", "open"].includes(study.state) && !document.hidden) begin();
}, POLL);
begin();
