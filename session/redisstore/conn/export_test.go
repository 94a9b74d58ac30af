package conn

import "slices"

// Rights are all commands that the manual's ACL line must hold.
func Rights() []string {
	names := append([]string{}, handshake...)
	for _, r := range rights("session:") {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}
