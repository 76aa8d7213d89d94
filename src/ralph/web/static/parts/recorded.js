// The Memory page of a project without memories: what was recorded, and the memories that Ralph proposes from it.
import { html } from "../lib.js";
import { useGet } from "./api.js";
import { Decisions } from "./changes.js";
import { SessionEntry } from "./entries.js";
import { Command, Failure, Loading } from "./placeholders.js";
import { NothingRecorded } from "./setup.js";
import { Proposals } from "./proposals.js";
import { Section } from "./widgets.js";
import { count, number } from "./format.js";

const SESSIONS = 5;
const PROPOSALS = 20;

function Offered({ proposals }) {
  if (!proposals.total) {
    return html`<p>Nothing was proposed yet. Your agent can distil the sessions into memories: <${Command} command="ralph learn" /></p>`;
  }
  const more = proposals.total - proposals.items.length;
  return html`<${Section} title="Proposed memories" aside=${html`<span class="quiet num">${number(proposals.total)}</span>`}>
    <${Decisions} actions=${["accept", "edit", "reject"]} kind="proposal" />
    <${Proposals} items=${proposals.items} />
    ${more > 0 && html`<p class="rest quiet">${number(more)} more in <a href="/review" data-link>Review</a></p>`}
  <//>`;
}

/** What the list of memories shows as long as it is empty. */
export function Recorded() {
  const sessions = useGet("/api/sessions", { limit: SESSIONS }, { on: ["sessions"] });
  const observations = useGet("/api/records", { family: "observation", limit: 1 }, { on: ["sessions"] });
  const proposals = useGet("/api/review", { kind: "proposal", limit: PROPOSALS }, { on: ["insights", "records"] });
  const all = [sessions, observations, proposals];
  const failed = all.find((state) => state.error && state.value === undefined);
  if (failed) return html`<${Failure} error=${failed.error} retry=${failed.reload} />`;
  if (all.some((state) => state.value === undefined)) return html`<${Loading} lines=${6} what="what was recorded" />`;
  if (!sessions.value.total && !proposals.value.total) {
    return html`<${NothingRecorded} title="There are no memories yet" text="Add the first memory above, or in the terminal."
      command='ralph memory add -t decision "We use Postgres, since two writers block each other in SQLite"' />`;
  }
  return html`<div class="recorded">
    <p class="recorded-title">Ralph has recorded ${count(sessions.value.total, "session")} with${" "}
      ${count(observations.value.total, "step")}. None of it is a memory yet.</p>
    <${Offered} proposals=${proposals.value} />
    ${sessions.value.total > 0 && html`<${Section} title="Recent sessions" aside=${html`<a href="/sessions" data-link>All sessions</a>`}>
      <ul class="entries">${sessions.value.items.map((session) =>
        html`<li key=${session.id}><${SessionEntry} session=${session} /></li>`)}</ul>
    <//>`}
  </div>`;
}
