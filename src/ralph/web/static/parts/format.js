// Formats times, numbers and types in one place, so that "3 days ago" reads the same on every page.
import { html } from "../lib.js";

const whole = new Intl.NumberFormat("en");
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const dated = new Intl.DateTimeFormat("en", { year: "numeric", month: "short", day: "numeric", timeZone: "UTC" });
const exact = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

const STEPS = [
  ["year", 365 * 86400],
  ["month", 30 * 86400],
  ["week", 7 * 86400],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];

/** 12345 -> "12,345". A missing number becomes an en dash. */
export function number(value) {
  return value === null || value === undefined || Number.isNaN(value) ? "–" : whole.format(value);
}

/** (1, "record") -> "1 record"; (2, "memory", "memories") -> "2 memories". */
export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/** 0.4567 -> "46%". */
export function percent(value) {
  return value === null || value === undefined ? "–" : `${Math.round(value * 100)}%`;
}

/** 75.4 -> "1 min 15 s"; 0.82 -> "0.8 s". */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.1) return "under 0.1 s";
  if (value < 10) return `${Number(value.toFixed(1))} s`;
  if (value < 60) return `${Math.round(value)} s`;
  const minutes = Math.floor(value / 60);
  const joined = (one, rest) => (rest.startsWith("0 ") ? one : `${one} ${rest}`);
  if (minutes < 60) return joined(`${minutes} min`, `${Math.floor(value % 60)} s`);
  return joined(`${Math.floor(minutes / 60)} h`, `${minutes % 60} min`);
}

const DAY = /^\d{4}-\d\d-\d\d$/;

/** The number of days from a date without a time until today. */
function daysTo(date, now) {
  const [year, month, dayOfMonth] = date.split("-").map(Number);
  const today = new Date(now);
  const midnight = Date.UTC(today.getFullYear(), today.getMonth(), today.getDate());
  return Math.round((Date.UTC(year, month - 1, dayOfMonth) - midnight) / 86400000);
}

/** A time relative to now: "3 days ago", "in 2 hours", or "" for an invalid time. */
export function ago(iso, now = Date.now()) {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return "";
  const days = DAY.test(iso) ? daysTo(iso, now) : null;
  if (days !== null && Math.abs(days) < 7) return relative.format(days, "day");
  const away = days === null ? (at - now) / 1000 : days * 86400;
  if (Math.abs(away) < 45) return "just now";
  for (const [unit, size] of STEPS) {
    if (Math.abs(away) >= size * (unit === "minute" ? 0.75 : 1)) return relative.format(Math.round(away / size), unit);
  }
  return relative.format(Math.round(away / 60), "minute");
}

/** "3d", "5h": a short form for narrow columns. */
export function shortAgo(iso, now = Date.now()) {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return "";
  if (DAY.test(iso) && daysTo(iso, now) === 0) return "today";
  const away = Math.abs(now - at) / 1000;
  for (const [unit, size] of STEPS) {
    if (unit !== "week" && away >= size) return `${Math.floor(away / size)}${unit === "month" ? "mo" : unit[0]}`;
  }
  return "now";
}

/** "5 Mar 2026", or "" for an invalid time. */
export function day(iso) {
  const at = Date.parse(iso);
  return Number.isNaN(at) ? "" : dated.format(at);
}

/** A `<time>` such as "3 days ago", with the exact time as its title. `short` suits narrow columns, `exactly` dates. */
export function Time({ at, short = false, exactly = false }) {
  if (!at) return null;
  const parsed = Date.parse(at);
  if (Number.isNaN(parsed)) return html`<span>${at}</span>`;
  const words = exactly ? (DAY.test(at) ? dated : exact).format(parsed) : short ? shortAgo(at) : ago(at);
  return html`<time datetime=${at} title=${at}>${words}</time>`;
}

const HUES = {
  pattern: "teal",
  patterns: "teal",
  decision: "iris",
  fix: "amber",
  gotcha: "amber",
  context: "sky",
  discovery: "sky",
  knowledge: "sky",
  guardrail: "rose",
  insight: "plum",
  proposal: "plum",
  memory: "teal",
  observation: "slate",
  tool_use: "slate",
  note: "sky",
  error: "rose",
  success: "moss",
  journal: "plum",
  summary: "plum",
  session: "plum",
  task: "iris",
  run: "iris",
  file: "slate",
  symbol: "moss",
  tag: "rose",
  done: "moss",
  failed: "rose",
  blocked: "amber",
  retried: "amber",
  interrupted: "slate",
};

/** The hue of a type. `--hue-NAME` is the custom property for lines and dots, and `hue-NAME` the class for chips. */
export function hueOf(kind) {
  return HUES[kind] ?? HUES[String(kind ?? "").replace(/s$/, "")] ?? "slate";
}

const EVENTS = {
  SessionStart: "start of the session",
  UserPromptSubmit: "prompt",
  PreToolUse: "before a tool",
  PostToolUse: "after a tool",
  PostToolUseFailure: "failed command",
  SubagentStart: "start of a subagent",
};

/** The moment at which an agent was given something: "UserPromptSubmit" -> "prompt". */
export function moment(event) {
  return Object.hasOwn(EVENTS, event) ? EVENTS[event] : event;
}

const REASONS = {
  text: (word) => `mentions “${word}”`,
  title: (word) => `title has “${word}”`,
  tag: (word) => `tagged “${word}”`,
  path: (word) => `names a file with “${word}”`,
  link: () => "linked from a match",
  amends: () => "changes an earlier decision",
  meaning: () => "similar in meaning",
  recent: (day) => `recent (${day})`,
};

/** The reason for a match: "tag: redis" -> "tagged “redis”". Other reasons are sentences already. */
export function matchReason(why) {
  const [, field, word] = /^(\w+): (.+)$/.exec(why) ?? [];
  return Object.hasOwn(REASONS, field ?? "") ? REASONS[field](word) : why;
}

const AUTHORS = { human: "a person", agent: "an agent" };

/** The author of a memory in words. */
export function author(by) {
  return Object.hasOwn(AUTHORS, by) ? AUTHORS[by] : by;
}

/** "tool_use" -> "tool use". */
export function readable(word) {
  return String(word ?? "").replaceAll("_", " ");
}

/** "cited file is gone: x" -> "Cited file is gone: x". Text that begins with a name or an id is not changed. */
export function sentence(words) {
  return /^[a-z]+(?=[\s,;]|$)/.test(words ?? "") ? words[0].toUpperCase() + words.slice(1) : (words ?? "");
}

/** A type as a chip, with its name and a dot in its colour. */
export function Kind({ kind, label }) {
  const words = readable(kind);
  const other = label && readable(label).toLowerCase() !== words ? label : "";
  return html`<span class="kind hue-${hueOf(kind)}" title=${other ? `${words}, labelled ${other}` : undefined}
    >${other ? readable(other).toLowerCase() : words}</span>`;
}

/** "See [[Release steps]]" -> "See Release steps": references in a line that is itself a link. */
export function unlinked(text) {
  return text.replace(/\[\[([^\[\]\n]{1,200})\]\]/g, "$1").replace(/ralph:\/\/(memory|session|task|run)\/([\w.%~-]{1,200})/g, "$1 $2");
}

/** Text with names in backticks as code. `draw` renders each piece differently. */
export function coded(text, draw = (part) => part) {
  return unlinked(text).split(/`([^`]+)`/).map((part, at) => (at % 2 ? html`<code key=${at}>${draw(part)}</code>` : draw(part)));
}

const REVIEWS = {
  held: ["held memory", "rose"],
  edit: ["unsigned edit", "rose"],
  "task-proposal": ["proposal", "plum"],
  proposal: ["proposal", "plum"],
  citation: ["stale", "amber"],
  conflict: ["conflict of a merge", "rose"],
  contradiction: ["contradiction", "rose"],
};

/** The kind of a review item, in words. */
export function ReviewKind({ kind }) {
  const [word, hue] = REVIEWS[kind] ?? [kind, "slate"];
  return html`<span class="kind hue-${hue}">${word}</span>`;
}

/** A number of tokens, with its unit. */
export function Tokens({ n }) {
  return html`<span class="num tokens" title="by estimate">${number(n)} tokens</span>`;
}

/** The last segment of a path, with the whole path as its title. */
export function FileName({ name }) {
  if (!name) return null;
  return html`<span class="file" title=${name}>${name}</span>`;
}
