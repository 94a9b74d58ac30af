package proxy

import (
	"context"

	"github.com/sessionproxy/sessionproxy/session"
)

// Revoke ends a session for all its clients: its cookies go, replies that are
// under way bring none back, and its open WebSockets and blind tunnels close.
func (p *Proxy) Revoke(ctx context.Context, key session.Key) error {
	if err := p.store.Revoke(ctx, key); err != nil {
		return err
	}
	p.conns.closeSession(key.Shared())
	return nil
}
