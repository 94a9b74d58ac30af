package redisstore

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// The rules of who wins are not here but in [session.Jar.Apply]: a script
// compares and sets. It writes what was made from the state that is still
// there, else nothing, and tells that state. So each may be sent again.

//go:embed common.lua
var commonLua string

//go:embed read.lua
var readLua string

//go:embed write.lua
var writeLua string

//go:embed cut.lua
var cutLua string

//go:embed private.lua
var privateLua string

var (
	readScript    = redis.NewScript(commonLua + readLua)
	writeScript   = redis.NewScript(commonLua + writeLua)
	cutScript     = redis.NewScript(commonLua + cutLua)
	privateScript = redis.NewScript(commonLua + privateLua)
)
