package conn

// Rights are all commands that the manual's ACL line must hold.
func Rights() []string {
	names := append([]string{}, handshake...)
	for _, r := range rights("session:") {
		names = append(names, r.name)
	}
	return names
}
