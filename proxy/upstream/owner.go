package upstream

// Owner is whose lease it is. Equal owners are equal values.
type Owner struct{ kind, a, b string }

// Worker is one worker of a client.
func Worker(client, worker string) Owner { return Owner{"worker", client, worker} }

// Client is a client, with all its workers.
func Client(name string) Owner { return Owner{"client", name, ""} }

// Session is a session: that of a site's key with that ID. id "" is the
// default session's.
func Session(key, id string) Owner { return Owner{"session", key, id} }

// String is the owner as ledgers and logs have it.
func (o Owner) String() string {
	switch {
	case o.kind == "worker":
		return "worker:" + o.a + "/" + o.b
	case o.b != "":
		return o.kind + ":" + o.a + "~" + o.b
	}
	return o.kind + ":" + o.a
}
