// The filter of the list of jobs: `tag:exp=a7 state:failed maria` means failed jobs with this tag that say maria anywhere.

const KEYS = ["tag", "state", "user", "name", "id", "schedule"];

// Returns the words of a filter as [key, value]; a word without a known key has the key "".
export function wordsOf(text) {
  return text.split(/\s+/).filter(Boolean).map((word) => {
    const at = word.indexOf(":"), key = word.slice(0, at).toLowerCase();
    return at > 0 && at < word.length - 1 && KEYS.includes(key) ? [key, word.slice(at + 1)] : ["", word];
  });
}

export const tagsOf = (job) => Object.entries(job.tags || {}).map(([name, value]) => (value ? `${name}=${value}` : name));

// Returns whether a job is meant.
export function jobFilter(text) {
  const words = wordsOf(text).map(([key, value]) => [key, value.toLowerCase()]);
  return (job) => words.every(([key, value]) => FITS[key](job, value));
}

const says = (text, value) => String(text || "").toLowerCase().includes(value);
const FITS = {
  tag: (job, value) => tagsOf(job).some((tag) => tag.toLowerCase() === value || tag.toLowerCase().startsWith(`${value}=`)),
  state: (job, value) => job.state.toLowerCase().startsWith(value),
  user: (job, value) => job.user.toLowerCase() === value,
  name: (job, value) => says(job.name, value),
  id: (job, value) => says(job.id, value),
  schedule: (job, value) => says(job.schedule, value),
  "": (job, value) => says(`${job.id} ${job.user} ${job.schedule || ""} ${job.state} ${tagsOf(job).join(" ")}`, value),
};

// What of a filter the cluster can apply itself, as words of the question `jobs`. The page applies all of it afterwards.
export function selectionOf(text) {
  const found = wordsOf(text), first = (key) => found.find(([each]) => each === key)?.[1];
  const states = ["QUEUED", "RUNNING", "STOPPING", "SUSPENDED", "RESCALING", "SUCCEEDED", "FAILED", "STOPPED"];
  const state = states.filter((each) => each.startsWith((first("state") || "?").toUpperCase()));
  return { tag: first("tag"), user: first("user"), name: first("name") && `*${first("name")}*`, state: state.length ? state.join() : undefined };
}
