// The study's page: asks the server how the study stands, every two seconds.
const $ = (id) => document.getElementById(id);
const token = location.hash.slice(1);
const EVERY = 2000;
const number = (value, digits = 0) => value === null || value === undefined ? "" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const percent = (value) => value === null || value === undefined ? "" : `${Math.round(100 * value)} %`;

async function call(path, body) {
  const options = { headers: { Authorization: `Bearer ${token}` } };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error || "This did not work.");
  return response;
}

function cell(text, kind = "") {
  const made = document.createElement("td");
  made.className = kind;
  made.textContent = text;
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
function bar(row, low, high) {
  const made = document.createElement("td"), svg = document.createElementNS(SVG, "svg");
  made.className = "bars";
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", row.lower === null ? number(row.score, 2) : `${number(row.score, 2)}, from ${number(row.lower, 2)} to ${number(row.upper, 2)}`);
  const at = (value) => `${(100 * (value - low)) / (high - low || 1)}%`;
  const line = (from, to, y1, y2, kind) => {
    const each = document.createElementNS(SVG, "line");
    for (const [name, value] of Object.entries({ x1: from, x2: to, y1, y2, class: kind })) each.setAttribute(name, value);
    svg.append(each);
  };
  line(at(0), at(0), "0", "100%", "zero");
  if (row.lower !== null) line(at(row.lower), at(row.upper), "50%", "50%", "span");
  line(at(row.score), at(row.score), "15%", "85%", "at");
  made.append(svg);
  return made;
}

function showRanking(ranking, claim, settled) {
  $("ranking-box").hidden = !ranking.length;
  $("ranking-text").textContent = ranking.length ? "From all votes so far. Votes of reliable judges count more." : "No votes yet.";
  const ends = ranking.flatMap((row) => [row.lower ?? row.score, row.upper ?? row.score]);
  const low = Math.min(0, ...ends), high = Math.max(0, ...ends);
  $("ranking").replaceChildren(...ranking.map((row) => {
    const line = document.createElement("tr");
    if (settled && claim.includes(row.item)) line.className = "claimed";
    const span = row.rank_lower === null ? "" : row.rank_lower === row.rank_upper ? `${row.rank_lower}` : `${row.rank_lower} to ${row.rank_upper}`;
    line.append(cell(number(row.rank), "num"), cell(row.item, "name"), bar(row, low, high), cell(span, "num optional"), cell(number(row.comparisons), "num"));
    return line;
  }));
}

function showJudges(judges) {
  $("judges-box").hidden = !judges.length;
  $("judges-text").textContent = judges.length ? "A verdict says how well the votes of a judge agree with the ranking." : "No judge has joined yet. Send the judges their link.";
  $("judges").replaceChildren(...judges.map((each) => {
    const line = document.createElement("tr");
    const verdict = each.withdrawn ? "withdrawn" : each.verdict || (each.votes ? "…" : "no votes yet");
    line.append(
      cell(each.name, "name"), cell(number(each.votes), "num"), cell(number(each.seconds, 1), "num"),
      cell(percent(each.agreement), "num optional"), cell(each.gold ? `${each.gold[0]} of ${each.gold[1]}` : "", "num optional"),
      cell(verdict, `verdict-${each.verdict || "none"}`));
    return line;
  }));
}

const STATES = { open: "asking", paused: "paused", closed: "closed", settled: "settled", spent: "budget spent" };
function showState(study) {
  $("state").hidden = false;
  $("state").textContent = STATES[study.state] || study.state;
  $("state").className = `chip ${study.state}`;
  $("pause").disabled = study.state !== "open";
  $("close").disabled = study.state === "closed";
  $("open").hidden = study.state === "open" || study.state === "spent";
}

function tiles(study) {
  const judges = study.judges.filter((each) => each.votes).length;
  const facts = [["Votes", number(study.answers) + (study.budget && study.cost === null ? ` of ${number(study.budget)}` : "")], ["Items", number(study.items)], ["Judges", number(judges)]];
  if (study.cost !== null) facts.splice(1, 0, ["Cost", number(study.cost, 2) + (study.budget ? ` of ${number(study.budget, 2)}` : "")]);
  if (study.result.more) facts.push(["Votes still needed (median)", study.result.more]);
  $("tiles").replaceChildren(...facts.map(([name, value]) => {
    const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    box.append(dt, dd);
    return box;
  }));
}

async function refresh() {
  try {
    const study = await (await call("/api/study")).json();
    $("problem").textContent = study.result.error ? `The last fit failed: ${study.result.error}` : "";
    $("title").textContent = document.title = study.question;
    const said = study.result.statement || "No votes yet.";
    if ($("answer").textContent !== said) $("answer").textContent = said; // only what is new is read aloud
    $("detail").textContent = study.result.expected || "";
    showState(study);
    tiles(study);
    showRanking(study.result.ranking || [], study.result.claim || [], study.result.settled);
    showJudges(study.judges);
  } catch (error) {
    $("problem").textContent = error instanceof TypeError ? "The server does not answer. Is it running?" : error.message;
    if (!$("state").textContent) $("title").textContent = "Study";
  }
}

async function setState(state) {
  await call("/api/study/state", { state }).catch((error) => { $("problem").textContent = error.message; });
  refresh();
}
$("pause").addEventListener("click", () => setState("paused"));
$("close").addEventListener("click", () => setState("closed"));
$("open").addEventListener("click", () => setState("open"));

async function download(path, name) {
  $("working").textContent = "Preparing the file …";
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await (await call(path)).blob());
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    $("working").textContent = "";
  } catch (error) { $("working").textContent = error.message; }
}
$("votes").addEventListener("click", () => download("/api/study/votes.csv", "votes.csv"));
$("fit").addEventListener("click", () => download("/api/study/fit.zip", "fit.zip"));
$("report").addEventListener("click", async () => {
  $("working").textContent = "Making the report …";
  const opened = window.open("about:blank"); // at once, or the browser takes it for an advertisement
  try {
    const found = await (await call("/api/study/report", {})).json();
    $("working").textContent = "";
    if (opened) opened.location = found.at;
    else location = found.at;
  } catch (error) {
    opened?.close();
    $("working").textContent = error.message;
  }
});
refresh();
setInterval(() => { if (!document.hidden) refresh(); }, EVERY);
