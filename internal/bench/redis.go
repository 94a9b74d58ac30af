//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

// redisServer is a Redis of the run's own, on the load's cores.
type redisServer struct {
	addr string
	cmd  *exec.Cmd
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	r := &redisServer{addr: fmt.Sprintf("127.0.0.1:%d", port), cmd: exec.CommandContext(ctx, "redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--save", "", "--dir", dir)}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server (Debian package redis-server): %w", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			conn.Close()
			return r, nil
		}
		if time.Now().After(deadline) {
			r.stop()
			return nil, fmt.Errorf("start redis-server: %w", err)
		}
	}
}

func (r *redisServer) stop() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()         // killed: that is its error
}
