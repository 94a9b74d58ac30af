package redispool

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/prelude.lua
var prelude string

//go:embed lua/declare.lua
var declareLua string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/leave.lua
var leaveLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/rest.lua
var restLua string

//go:embed lua/members.lua
var membersLua string

//go:embed lua/list.lua
var listLua string

//go:embed lua/since.lua
var sinceLua string

// Each operation is one script, so that no crash leaves half of it.
var (
	declareScript = script("local declaring = true\n", declareLua)
	acquireScript = script(operation, acquireLua)
	leaveScript   = script(operation, leaveLua)
	renewScript   = script(operation, renewLua)
	releaseScript = script(operation, releaseLua)
	restScript    = script(operation, restLua)
	membersScript = script(operation, membersLua)
	listScript    = script(operation, listLua)
)

// operation begins the scripts for a pool that has been declared.
const operation = "local declaring = false\n"

func script(kind, body string) *redis.Script { return redis.NewScript(kind + prelude + body) }

// companions are the pool's keys beside its set, in the order in which the
// scripts know them.
var companions = []string{
	"members", // hash: URL → where it is from, "gone" where it is kept for its leases
	"removed", // set: URLs that the configuration names and an operator has removed
	"rests",   // hash: URL → until when|failures|reason
	"leases",  // hash: token → owner, URL, since, the run of Redis that knows it, holders with their deadlines
	"ends",    // sorted set: token → its last holder's deadline
	"load",    // hash: URL → leases
	"owners",  // hash: owner → token
	"last",    // hash: owner → URL
	"used",    // sorted set: URL → number of its last grant
	"queue",   // sorted set: owner → ticket
	"seen",    // sorted set: owner → when its place in the queue is lost
	"shown",   // set: what was left in the pool's set
	"claims",  // hash: URL → owner of another program that says it has it
	"copies",  // set: owners whose leases are copied to the assigned hash
	"meta",    // hash: the pool's clock, run of Redis, when it settles, capacity, counters
}
