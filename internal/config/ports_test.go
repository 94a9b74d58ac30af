package config

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

// Ports that are open keep to the rules of ports, whichever clients come or go.
func TestOpenPorts(t *testing.T) {
	t.Parallel()
	network := Listen{Addr: "0.0.0.0:8080", Auth: AuthAsk, TLS: true}
	loopback := Listen{Addr: "127.0.0.1:8081", Auth: AuthAsk}
	pinned := Listen{Addr: "127.0.0.1:8082", Auth: AuthNone, Client: "crawler", Session: "qa1"}
	office := Listen{Addr: "10.0.0.2:8083", Auth: AuthNone, From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	const crawler, qa = "clients: [{name: crawler, password: hunter2}]", "clients: [{name: qa, password: hunter2}]"
	for _, tt := range []struct {
		name, clients string
		open          []Listen
		want          []string // where and what; remedies are those of a file
	}{
		{"the clients stay", crawler, []Listen{network, loopback, pinned, office}, nil},
		{"other clients come", qa, []Listen{network, loopback, office}, nil},
		{"all go, and a port is open to the network", "", []Listen{loopback, network},
			[]string{"listen 0.0.0.0:8080: off loopback and without clients, whoever finds this port has the shared logins"}},
		{"all go, and a port asks nobody of a network", "", []Listen{office},
			[]string{"listen 10.0.0.2:8083: off loopback and without clients, whoever finds this port has the shared logins"}},
		{"all go, and only loopback is open", "", []Listen{loopback, pinned}, nil},
		{"the client of a port goes", qa, []Listen{pinned}, []string{"listen 127.0.0.1:8082: no client has this name"}},
		{"the client of a port loses its session", "clients: [{name: crawler, password: hunter2, sessions: [prod]}]", []Listen{pinned},
			[]string{"listen 127.0.0.1:8082: this client may not use this session"}},
		{"a port that takes passwords in clear", crawler, []Listen{{Addr: "0.0.0.0:8084", Auth: AuthAsk}},
			[]string{"listen 0.0.0.0:8084: off loopback, passwords would cross the network in clear"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := read(t, "/etc/shop", tt.clients+shop).OpenPorts(tt.open)
			faults, ok := errors.AsType[Faults](err)
			if err != nil && !ok {
				t.Fatalf("%v is no list of faults", err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.Where+": "+f.Message)
				if f.Remedy == "" || f.Line != "" {
					t.Errorf("%+v: want a remedy, and no line of a file", f)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
