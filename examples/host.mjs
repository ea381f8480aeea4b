// A host without a library: it keeps follow-ups in a file, each once, and prints their text.
//
//   node host.mjs SOCKET QUEUE SESSION...
//
// docs/protocol.md says what is spoken: JSON-RPC 2.0, one object a line, both ways.
import fs from "node:fs"
import net from "node:net"

const [socketPath, queuePath, ...sessions] = process.argv.slice(2)
const queue = fs.openSync(queuePath, "a+")
const known = new Set() // by occurrence ids: a follow-up may come again after a crash
for (const line of fs.readFileSync(queuePath, "utf8").split("\n")) {
  // An empty line, or half a one that a crash left, is none.
  try { JSON.parse(line).occurrences.forEach((each) => known.add(each.occurrence_id)) } catch {}
}
let pause = 100 // milliseconds until the next connection, doubled up to five seconds

function take(followup) {
  if (!sessions.includes(followup.session_id)) return { status: "gone" }
  const isNew = followup.occurrences.map((each) => !known.has(each.occurrence_id))
  const occurrences = followup.occurrences.filter((_, place) => isNew[place])
  if (!occurrences.length) return { status: "admitted" }
  // In the text a paragraph for each stands between the head and the end, whose places are none.
  const text = followup.text.split("\n\n").filter((_, at) => isNew[at - 1] ?? true).join("\n\n")
  fs.writeSync(queue, "\n" + JSON.stringify({ ...followup, text, occurrences }) + "\n") // own line
  fs.fsyncSync(queue) // on disk before the daemon hears that it was admitted
  occurrences.forEach((each) => known.add(each.occurrence_id))
  console.log(text) // here the agent takes its turn
  return { status: "admitted" }
}

function connect() {
  const socket = net.connect(socketPath).setEncoding("utf8")
  const send = (message) => socket.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n")
  let rest = ""
  socket.on("connect", () => send({ id: 1, method: "host.attach", params: { name: "node", sessions } }))
  socket.on("data", (text) => {
    const lines = (rest + text).split("\n")
    rest = lines.pop()
    for (const { id, method, params, error, result } of lines.map((line) => JSON.parse(line))) {
      if (error) throw new Error(error.message) // this host is refused
      if (result) pause = 100 // attached
      if (method === "session.followup") send({ id, result: take(params) })
      else if (method && id !== undefined) send({ id, error: { code: -32601, message: "unknown" } })
    }
  })
  socket.on("error", (error) => console.error(error.message))
  socket.on("close", () => setTimeout(connect, (pause = Math.min(2 * pause, 5000))))
}
connect()
