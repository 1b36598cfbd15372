// What needs attention now. Pure: from the state of the cluster to a list of sentences.

import { ago, bytes } from "../format.js";

const FULL = 0.05;

// `disks`: those of the master.
export function alerts({ nodes, store, disks = [] }) {
  const found = [];
  for (const { holds, free, total } of disks) {
    if (total && free / total < FULL) found.push({ bad: free / total < 0.01, tone: free / total < 0.01 ? "failed" : "warn", text: `Master: the disk of ${holds} is almost full, ${bytes(free)} of ${bytes(total)} free; the cluster stops accepting changes once it is full` });
  }
  if (store) found.push({ bad: true, tone: "failed", text: `The store refuses writes: ${store.message}` });
  for (const node of nodes.values()) {
    const href = `#/nodes/${encodeURIComponent(node.name)}`;
    const add = (bad, text, tone = bad ? "failed" : "warn") => found.push({ bad, href, tone, text: `Node ${node.name}: ${text}` });
    const why = node.reason ? ` – ${node.reason.message}` : "";
    if (node.state === "SILENT") add(false, `silent; last heard ${ago(node.seen)}${why}`);
    if (node.state === "LOST") add(true, `lost; last heard ${ago(node.seen)}${why}`, "lost");
    if (node.state === "QUARANTINED") add(true, `in quarantine, gets no new tasks${why}`);
    for (const [device, reason] of Object.entries(node.quarantine || {})) add(true, `GPU ${device} in quarantine – ${reason}`);
    for (const gpu of node.usage?.gpus || []) if (gpu.error && !node.quarantine?.[gpu.id]) add(true, `GPU ${gpu.id} does not answer – ${gpu.error}`);
    const { disk_free: free, disk_total: total } = node.usage || {};
    if (total && free / total < FULL) add(free / total < 0.01, `disk almost full, ${bytes(free)} of ${bytes(total)} free`);
  }
  return found.sort((one, two) => Number(two.bad) - Number(one.bad));
}
